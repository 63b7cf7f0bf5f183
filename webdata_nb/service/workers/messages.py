"""Encodes what the service and its page workers send each other: JSON heads and byte strings.

A message is two sizes (4 bytes each, big-endian), a JSON head of the first size, and byte strings
that together have the second. No part of a message can contain code. A page that exploits a bug of
the parser may control its worker, so `decode_reply` checks the type and size of everything.

A reply is ``{"failure": [kind, text]}`` or a page: the fields of `Scraped`, with the outlinks as
columns, the names of the formats, and in ``sizes`` the lengths of the byte strings that follow:
the text, the sketch, the shape, and the JSON of each format.
"""

from __future__ import annotations

import re
import struct
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any, Final, get_args

import orjson

from webdata_nb.page.content.links import outlinks_from_columns
from webdata_nb.page.content.page_source import ConversionOptions, FileSlice, PageSource
from webdata_nb.page.content.rights_declarations import (
    MAX_DECLARATIONS,
    MAX_RSL_CHARACTERS,
    DeclarationKind,
    PageDeclaration,
)
from webdata_nb.page.errors import ExtractError
from webdata_nb.page.extract import structured
from webdata_nb.page.extract.evidence.messages import EVIDENCE, evidence_from_json
from webdata_nb.page.scrape.plain_json import dumps
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.runtime.steps import Steps, run_to_completion

SIZES: Final = struct.Struct("!II")
# Ten times the largest body: a request may ask for every format of a page.
MAX_REPLY_BYTES: Final = 200 * 1024 * 1024
MAX_FAILURE_CHARS: Final = 500
MAX_TITLE_CHARS: Final = 20_000
MAX_URL_CHARS: Final = 64 * 1024
MAX_SKETCH_BYTES: Final = 4096
OUT_OF_MEMORY: Final = "the page needs more memory than a page may have"
_FAILURES: Final = frozenset({"unsupported_type", "parse", "memory_limit"})
_HASH: Final = re.compile(r"[0-9a-f]{0,64}")
_DIRECTIVES: Final = frozenset({"noindex", "nofollow", "none"})
_DECLARATION_KINDS: Final = frozenset(get_args(DeclarationKind))
_COLUMNS: Final = (str, str, bool)
_FIXED_PART_COUNT: Final = 3  # text, sketch, shape

PageJob = tuple[PageSource, ConversionOptions, bool]
# A page's data, or the kind and the message of its failure.
PageReply = Scraped | tuple[str, str]
Buffer = bytes | memoryview


class BadMessage(Exception):
    """A message breaks the protocol; the text says how, without the message's content."""


def encode_job(job: PageJob) -> bytes:
    """Encode a page and what is wanted of it."""
    source, options, outlinks = job
    body_slice = source.body_slice
    head = {
        "url": source.url,
        "final_url": source.final_url,
        "status": source.status,
        "content_type": source.content_type,
        "redirects": source.redirects,
        "fetched_at": source.fetched_at.isoformat(),
        "headers": source.headers,
        "body_slice": body_slice and (body_slice.path, body_slice.start, body_slice.size),
        "formats": options.formats,
        "only_main_content": options.only_main_content,
        "markdown_mode": options.markdown_mode,
        "include_tags": options.include_tags,
        "exclude_tags": options.exclude_tags,
        "facts": tuple(options.facts),
        "encoded": options.encoded,
        "schema": options.schema,
        "extracted": options.extracted,
        "outlinks": outlinks,
    }
    return _message(head, source.body)


def decode_job(head: bytes, body: bytes) -> PageJob:
    """Decode a job of the service, which is trusted."""
    job = orjson.loads(head)  # noqa: TID251 - written by the other process
    body_slice = job["body_slice"]
    source = PageSource(
        url=job["url"],
        final_url=job["final_url"],
        status=job["status"],
        content_type=job["content_type"],
        body=body,
        redirects=tuple((url, status) for url, status in job["redirects"]),
        fetched_at=datetime.fromisoformat(job["fetched_at"]),
        headers=tuple((name, value) for name, value in job["headers"]),
        body_slice=body_slice and FileSlice(*body_slice),
    )
    options = ConversionOptions(
        formats=tuple(job["formats"]),
        only_main_content=job["only_main_content"],
        markdown_mode=job["markdown_mode"],
        include_tags=tuple(job["include_tags"]),
        exclude_tags=tuple(job["exclude_tags"]),
        facts=frozenset(job["facts"]),
        encoded=job["encoded"],
        schema=job["schema"],
        extracted=job["extracted"],
    )
    return source, options, job["outlinks"]


def encode_reply(reply: PageReply) -> bytes:
    """Encode a reply; a page that is too large becomes a failure."""
    if isinstance(reply, tuple):
        kind, reason = reply
        return _message({"failure": (kind, reason[:MAX_FAILURE_CHARS])})
    formats, metadata = reply.encode_formats()
    text = reply.text.encode("utf-8", "replace")
    parts = (text, reply.sketch, reply.shape, *formats.values())
    head = {
        "title": reply.title,
        "metadata": metadata,
        "quality": reply.quality,
        "outlinks": tuple(zip(*reply.outlinks, strict=True)),
        "canonical": reply.canonical,
        "robots": tuple(reply.robots),
        "declarations": tuple(map(tuple, reply.declarations)),
        "content_hash": reply.content_hash,
        "audit": reply.audit,
        "formats": tuple(formats),
        "sizes": tuple(map(len, parts)),
    }
    message = _message(head, *parts)
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


def decode_reply(head: Buffer, parts: Buffer, options: ConversionOptions) -> PageReply:
    """Decode and check a worker's reply.

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
    return run_to_completion(decode_reply_in_steps(head, parts, options))


def decode_reply_in_steps(
    head: Buffer, parts: Buffer, options: ConversionOptions
) -> Steps[PageReply]:
    """Decode a reply as `decode_reply` does; each part of a large page takes milliseconds."""
    fields = _object(_loads(head))
    yield
    if "failure" in fields:
        return _failure(fields["failure"])
    try:
        byte_strings = yield from _split_parts(fields["sizes"], parts)
        return (yield from _page(fields, byte_strings, options))
    except KeyError as error:
        raise BadMessage(f"a reply without {error.args[0]!r}") from None


def _page(fields: dict[str, Any], parts: list[bytes], options: ConversionOptions) -> Steps[Scraped]:
    names = fields["formats"]
    if names != list(options.formats) or len(parts) != _FIXED_PART_COUNT + len(names):
        raise BadMessage("a reply with other formats than requested")
    text, sketch, shape, *formats = parts
    values = []
    for name, part in zip(names, formats, strict=True):
        value = _loads(part)
        if name == structured.EXTRACTION:
            _check_extraction(value)
        if name == EVIDENCE:
            _check_evidence(value)
        # Encoded formats are passed on unchanged, so they must be known to be JSON.
        values.append(part if options.encoded else value)
        yield
    outlinks = outlinks_from_columns(_columns(fields["outlinks"]))
    yield
    return Scraped(
        title=_text(fields["title"], MAX_TITLE_CHARS),
        formats=dict(zip(names, values, strict=True)),
        metadata=_object(fields["metadata"]),
        quality=_object(fields["quality"]),
        outlinks=outlinks,
        canonical=_text(fields["canonical"], MAX_URL_CHARS),
        robots=_directives(fields["robots"]),
        content_hash=_matching(_HASH, fields["content_hash"]),
        text=_utf8(text),
        sketch=_check_sketch(sketch),
        shape=_check_sketch(shape),
        audit=_object(fields["audit"]),
        declarations=_declarations(fields["declarations"]),
    )


def _message(head: dict[str, Any], *parts: bytes) -> bytes:
    encoded_head = dumps(head)
    return b"".join((SIZES.pack(len(encoded_head), sum(map(len, parts))), encoded_head, *parts))


def _split_parts(sizes: Any, parts: Buffer) -> Steps[list[bytes]]:
    if not _all_of(int, sizes) or any(size < 0 for size in sizes) or sum(sizes) != len(parts):
        raise BadMessage("a reply whose sizes are not those of its parts")
    pieces = []
    for start, end in pairwise(accumulate(sizes, initial=0)):
        pieces.append(bytes(parts[start:end]))
        yield
    return pieces


def _check_extraction(value: Any) -> None:
    try:
        structured.Extraction.from_json(value)
    except ExtractError:
        return  # the worker says that it could not extract
    except ValueError:
        raise BadMessage("an extraction of another form") from None


def _check_evidence(value: Any) -> None:
    try:
        evidence_from_json(value)
    except ValueError:
        raise BadMessage("evidence of another form") from None


def _failure(value: Any) -> tuple[str, str]:
    if not _all_of(str, value) or len(value) != len(("kind", "text")):
        raise BadMessage("a failure that is not a kind and a text")
    kind, text = value
    if kind not in _FAILURES:
        raise BadMessage("a failure of an unknown kind")
    return kind, text[:MAX_FAILURE_CHARS]


def _loads(data: Buffer) -> Any:
    try:
        return orjson.loads(data)  # noqa: TID251 - written by the other process
    except orjson.JSONDecodeError:
        raise BadMessage("a reply that is not JSON") from None


def _columns(value: Any) -> list[list[Any]]:
    if value == []:
        return []
    if not isinstance(value, list) or len(value) != len(_COLUMNS):
        raise BadMessage("outlinks that are not three columns")
    if not all(map(_all_of, _COLUMNS, value)) or len(set(map(len, value))) != 1:
        raise BadMessage("columns of outlinks of other types or lengths")
    if not all(url.startswith(("http://", "https://")) for url in value[0]):
        raise BadMessage("an outlink that is no web address")
    return value


def _all_of(kind: type, values: Any) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= {kind}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadMessage("a value that should be an object")
    return value


def _text(value: Any, max_length: int) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > max_length):
        raise BadMessage("a value that should be a text of limited length")
    return value


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise BadMessage("a value of the wrong form")
    return value


def _directives(value: Any) -> frozenset[str]:
    if not _all_of(str, value) or not _DIRECTIVES.issuperset(value):
        raise BadMessage("unknown robots directives")
    return frozenset(value)


def _declarations(value: Any) -> tuple[PageDeclaration, ...]:
    if not isinstance(value, list) or len(value) > MAX_DECLARATIONS:
        raise BadMessage("declarations that are not a list of limited length")
    for entry in value:
        if not _all_of(str, entry) or len(entry) != len(PageDeclaration._fields):
            raise BadMessage("a declaration that is not three texts")
        if entry[0] not in _DECLARATION_KINDS or len(entry[2]) > MAX_RSL_CHARACTERS:
            raise BadMessage("a declaration of an unknown kind or without limit")
        if entry[0] == "link" and not entry[1].startswith(("http://", "https://")):
            raise BadMessage("a licence that is no web address")
    return tuple(PageDeclaration(*entry) for entry in value)


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadMessage("a text that is not UTF-8") from None


def _check_sketch(data: bytes) -> bytes:
    if len(data) > MAX_SKETCH_BYTES:
        raise BadMessage("a sketch that is too large")
    return data
