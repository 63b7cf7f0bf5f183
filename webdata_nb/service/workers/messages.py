"""Encodes what the service and its page workers send each other: JSON heads and byte strings.

A message is two sizes (4 bytes each, big-endian), a JSON head of the first size, and byte strings
that together have the second: the body of a page, or its text and the JSON of each format. No part
of a message can contain code. A page that exploits a bug of the parser may control its worker, so
`decode_reply_in_steps` checks the type and size of everything.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Annotated, Any, Final, Literal

import msgspec
import orjson
from msgspec import Meta, Raw, Struct

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.extract.results import EVIDENCE, EXTRACTION, Extraction, ValueEvidence
from webdata_nb.page.scrape.scraped import Scraped, dumps
from webdata_nb.page.sitemap import SITEMAP_FORMAT, ParsedSitemap
from webdata_nb.service.runtime.steps import Steps

SIZES: Final = struct.Struct("!II")
# Ten times the largest body: a request may ask for every format of a page.
MAX_REPLY_BYTES: Final = 200 * 1024 * 1024
MAX_FAILURE_CHARS: Final = 500
OUT_OF_MEMORY: Final = "the page needs more memory than a page may have"
_WEB: Final = re.compile("https?://")
_TYPES: Final[dict[str, Any]] = {
    EXTRACTION: Extraction,
    EVIDENCE: list[ValueEvidence],
    SITEMAP_FORMAT: ParsedSitemap,
}
"""Formats that the service reads itself."""

PageJob = tuple[FetchedResponse, ConversionOptions, bool]
# A page's data, or the kind and the message of its failure.
PageReply = Scraped | tuple[str, str]
Buffer = bytes | memoryview
_Size = Annotated[int, Meta(ge=0)]
_Objects = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


class BadMessage(Exception):
    """A message breaks the protocol; the text says how, without the message's content."""


class _Page(Struct, frozen=True, tag="page"):
    """The head of a page: its fields without text and formats, and the sizes of those.

    `objects` has the values without a type: metadata, quality and audit.
    """

    page: Scraped
    objects: Raw
    text: _Size
    formats: dict[str, _Size]


class _Failure(Struct, frozen=True, tag="failure"):
    """The head of a page that could not be read."""

    kind: Literal["unsupported_type", "parse", "memory_limit"]
    message: Annotated[str, Meta(max_length=MAX_FAILURE_CHARS)]


_encoder: Final = msgspec.json.Encoder()
_job_decoder: Final = msgspec.json.Decoder(PageJob)
_reply_decoder: Final = msgspec.json.Decoder(_Page | _Failure)


def encode_job(job: PageJob) -> bytes:
    """Encode a page and what is wanted of it."""
    source, options, outlinks = job
    head = source.with_body_in(source.body_slice), options, outlinks
    return _message(head, source.body)


def decode_job(head: bytes, body: bytes) -> PageJob:
    """Decode a job of the service, which is trusted."""
    source, options, outlinks = _job_decoder.decode(head)
    return replace(source, body=body), options, outlinks


def encode_reply(reply: PageReply) -> bytes:
    """Encode a reply; a page that is too large becomes a failure."""
    if isinstance(reply, tuple):
        kind, reason = reply
        return _message(_Failure(kind, reason[:MAX_FAILURE_CHARS]))  # type: ignore[arg-type]
    formats, metadata = reply.encode_formats()
    text = reply.text.encode("utf-8", "replace")
    page = msgspec.structs.replace(reply, text="", formats={}, metadata={}, quality={}, audit={})
    objects = Raw(dumps((metadata, reply.quality, reply.audit)))
    sizes = {name: len(part) for name, part in formats.items()}
    message = _message(_Page(page, objects, len(text), sizes), text, *formats.values())
    if len(message) - SIZES.size > MAX_REPLY_BYTES:
        max_mib = MAX_REPLY_BYTES // 1024**2
        return encode_reply(("memory_limit", f"the page's formats take more than {max_mib} MiB"))
    return message


def check_sizes(prefix: bytes) -> tuple[int, int]:
    """Return the sizes of a reply's head and of its byte strings.

    Raises
    ------
    BadMessage
        The reply is too large.
    """
    head, parts = SIZES.unpack(prefix)
    if head + parts > MAX_REPLY_BYTES:
        raise BadMessage("a reply that is too large")
    return head, parts


def decode_reply_in_steps(
    head: Buffer, parts: Buffer, options: ConversionOptions
) -> Steps[PageReply]:
    """Decode and check a worker's reply; each part of a large page takes milliseconds.

    Parameters
    ----------
    head, parts
        The message's head, and its byte strings as one.
    options
        The options of the page; the reply must have exactly these formats.

    Raises
    ------
    BadMessage
        The message is no reply to such a page.
    """
    try:
        reply: _Page | _Failure = _reply_decoder.decode(head)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"a reply of another form{_path(error)}") from None
    if isinstance(reply, _Failure):
        return reply.kind, reply.message
    yield
    if tuple(reply.formats) != options.formats:
        raise BadMessage("a reply with other formats than requested")
    sizes = (reply.text, *reply.formats.values())
    if sum(sizes) != len(parts):
        raise BadMessage("a reply whose sizes are not those of its parts")
    links = [link.url for link in reply.page.outlinks]
    links += [each.name for each in reply.page.declarations if each.kind == "link"]
    if not all(map(_WEB.match, links)):
        raise BadMessage("a link that is no web address")
    objects = _convert(_loads(memoryview(reply.objects)), _Objects, "an object")
    (start, end), *places = pairwise(accumulate(sizes, initial=0))
    try:
        text = bytes(parts[start:end]).decode()
    except UnicodeDecodeError:
        raise BadMessage("a text that is not UTF-8") from None
    formats = {}
    for name, (start, end) in zip(reply.formats, places, strict=True):
        yield
        part = bytes(parts[start:end])
        value = _loads(part)
        if name in _TYPES:
            _convert(value, _TYPES[name], name)
        # Encoded formats are passed on unchanged, so they must be known to be JSON.
        formats[name] = part if options.encoded else value
    metadata, quality, audit = objects
    return msgspec.structs.replace(
        reply.page, text=text, formats=formats, metadata=metadata, quality=quality, audit=audit
    )


def _message(head: Any, *parts: bytes) -> bytes:
    try:
        encoded_head = _encoder.encode(head)
    except UnicodeEncodeError:  # a lone surrogate
        encoded_head = dumps(msgspec.to_builtins(head))
    return b"".join((SIZES.pack(len(encoded_head), sum(map(len, parts))), encoded_head, *parts))


def _loads(data: Buffer) -> Any:
    # Values without a type are not for msgspec, whose integers have any size.
    try:
        return orjson.loads(data)  # noqa: TID251 - written by the other process
    except orjson.JSONDecodeError:
        raise BadMessage("a reply that is not JSON") from None


def _convert(value: Any, type_: Any, what: str) -> Any:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise BadMessage(f"{what} of another form{_path(error)}") from None


def _path(error: Exception) -> str:
    """Return the place that an error of msgspec names; the rest may quote the message."""
    return "".join(str(error).rpartition(" - ")[1:])
