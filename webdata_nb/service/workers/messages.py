"""What the service and its page workers send each other: JSON heads with byte strings behind.

A message is two sizes (4 bytes each, big-endian), a JSON head of the first size, and byte strings
that together have the second. Nothing in a message can name code. A worker may be under the control
of a page that broke its parser, so `decode_answer` checks the type and size of all that it takes.

An answer is ``{"failure": [kind, text]}``, or a page: the fields of `Scraped`, with the outlinks as
columns, the names of the formats, and in ``sizes`` the lengths of the byte strings that follow:
the text, the sketch, the shape, and the JSON of each format.
"""

from __future__ import annotations

import re
import struct
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any, Final

import orjson

from webdata_nb.service.content.links import outlinks_of
from webdata_nb.service.content.source import ScrapeOptions, Slice, Source
from webdata_nb.service.errors import ExtractError
from webdata_nb.service.extract import structured
from webdata_nb.service.runtime.steps import Steps, at_once
from webdata_nb.service.scrape.plain_json import dumps
from webdata_nb.service.scrape.scraped import Scraped

SIZES: Final = struct.Struct("!II")
# Ten times the largest body, for a page may be asked for in every format at once.
MAX_ANSWER_BYTES: Final = 200 * 1024 * 1024
MAX_FAILURE_CHARS: Final = 500
MAX_TITLE_CHARS: Final = 20_000
MAX_URL_CHARS: Final = 64 * 1024
MAX_SKETCH_BYTES: Final = 4096
_FAILURES: Final = frozenset({"unsupported_type", "parse", "memory_limit"})
_HASH: Final = re.compile(r"[0-9a-f]{0,64}")
_DIRECTIVES: Final = frozenset({"noindex", "nofollow", "none"})
_COLUMNS: Final = (str, str, bool)
_FIXED_PARTS: Final = 3  # text, sketch, shape

Job = tuple[Source, ScrapeOptions, bool]
# A page's data, or the kind and the text of its failure.
Answer = Scraped | tuple[str, str]
Buffer = bytes | memoryview


class BadMessage(Exception):
    """A message that breaks the protocol; its text says how, without repeating its content."""


def encode_job(job: Job) -> bytes:
    """Return the message that asks for a page."""
    source, options, outlinks = job
    lies_in = source.lies_in
    head = {
        "url": source.url,
        "final_url": source.final_url,
        "status": source.status,
        "content_type": source.content_type,
        "redirects": source.redirects,
        "fetched_at": source.fetched_at.isoformat(),
        "headers": source.headers,
        "lies_in": lies_in and (lies_in.path, lies_in.start, lies_in.size),
        "formats": options.formats,
        "only_main_content": options.only_main_content,
        "markdown_mode": options.markdown_mode,
        "include_tags": options.include_tags,
        "exclude_tags": options.exclude_tags,
        "facts": tuple(options.facts),
        "encoded": options.encoded,
        "schema": options.schema,
        "outlinks": outlinks,
    }
    return _message(head, source.body)


def decode_job(head: bytes, body: bytes) -> Job:
    """Return the page that the service asks for; the service is trusted."""
    asked = orjson.loads(head)
    lies_in = asked["lies_in"]
    source = Source(
        url=asked["url"],
        final_url=asked["final_url"],
        status=asked["status"],
        content_type=asked["content_type"],
        body=body,
        redirects=tuple((url, status) for url, status in asked["redirects"]),
        fetched_at=datetime.fromisoformat(asked["fetched_at"]),
        headers=tuple((name, value) for name, value in asked["headers"]),
        lies_in=lies_in and Slice(*lies_in),
    )
    options = ScrapeOptions(
        formats=tuple(asked["formats"]),
        only_main_content=asked["only_main_content"],
        markdown_mode=asked["markdown_mode"],
        include_tags=tuple(asked["include_tags"]),
        exclude_tags=tuple(asked["exclude_tags"]),
        facts=frozenset(asked["facts"]),
        encoded=asked["encoded"],
        schema=asked["schema"],
    )
    return source, options, asked["outlinks"]


def encode_answer(answer: Answer) -> bytes:
    """Return the message that answers for a page; one that is too large says so instead."""
    if isinstance(answer, tuple):
        kind, reason = answer
        return _message({"failure": (kind, reason[:MAX_FAILURE_CHARS])})
    formats, metadata = answer.encode_formats()
    text = answer.text.encode("utf-8", "replace")
    parts = (text, answer.sketch, answer.shape, *formats.values())
    head = {
        "title": answer.title,
        "metadata": metadata,
        "quality": answer.quality,
        "outlinks": tuple(zip(*answer.outlinks, strict=True)),
        "canonical": answer.canonical,
        "robots": tuple(answer.robots),
        "content_hash": answer.content_hash,
        "formats": tuple(formats),
        "sizes": tuple(map(len, parts)),
    }
    message = _message(head, *parts)
    if len(message) - SIZES.size > MAX_ANSWER_BYTES:
        most = MAX_ANSWER_BYTES // 1024**2
        return encode_answer(("memory_limit", f"the page's formats take more than {most} MiB"))
    return message


def check_sizes(prefix: bytes) -> tuple[int, int]:
    """Return how long the head and the byte strings of an answer are.

    Raises
    ------
    BadMessage
        They are more than an answer may have.
    """
    head, parts = SIZES.unpack(prefix)
    if head + parts > MAX_ANSWER_BYTES:
        raise BadMessage("an answer of more bytes than one may have")
    return head, parts


def decode_answer(head: Buffer, parts: Buffer, options: ScrapeOptions) -> Answer:
    """Return what a worker says of a page.

    Parameters
    ----------
    head, parts
        The message's head, and its byte strings one behind the other.
    options
        What was asked: the answer has these formats and no others.

    Raises
    ------
    BadMessage
        It is no answer to this.
    """
    return at_once(decoding(head, parts, options))


def decoding(head: Buffer, parts: Buffer, options: ScrapeOptions) -> Steps[Answer]:
    """Do the same in steps: each part of a large page takes its milliseconds."""
    told = _object(_loads(head))
    yield
    if "failure" in told:
        return _failure(told["failure"])
    try:
        split = yield from _split(told["sizes"], parts)
        return (yield from _page(told, split, options))
    except KeyError as error:
        raise BadMessage(f"an answer without {error.args[0]!r}") from None


def _page(told: dict[str, Any], parts: list[bytes], options: ScrapeOptions) -> Steps[Scraped]:
    names = told["formats"]
    if names != list(options.formats) or len(parts) != _FIXED_PARTS + len(names):
        raise BadMessage("an answer with other formats than were asked for")
    text, sketch, shape, *formats = parts
    values = []
    for name, each in zip(names, formats, strict=True):
        value = _loads(each)
        if name == structured.EXTRACTION:
            _check_extraction(value)
        # Those who pass JSON on need to know that it is some, and no more.
        values.append(each if options.encoded else value)
        yield
    outlinks = outlinks_of(_columns(told["outlinks"]))
    yield
    return Scraped(
        title=_text(told["title"], MAX_TITLE_CHARS),
        formats=dict(zip(names, values, strict=True)),
        metadata=_object(told["metadata"]),
        quality=_object(told["quality"]),
        outlinks=outlinks,
        canonical=_text(told["canonical"], MAX_URL_CHARS),
        robots=_directives(told["robots"]),
        content_hash=_matching(_HASH, told["content_hash"]),
        text=_utf8(text),
        sketch=_short(sketch),
        shape=_short(shape),
    )


def _message(head: dict[str, Any], *parts: bytes) -> bytes:
    written = dumps(head)
    return b"".join((SIZES.pack(len(written), sum(map(len, parts))), written, *parts))


def _split(sizes: Any, parts: Buffer) -> Steps[list[bytes]]:
    """Return the byte strings that stand one behind the other."""
    if not _all_of(int, sizes) or any(size < 0 for size in sizes) or sum(sizes) != len(parts):
        raise BadMessage("an answer whose sizes are not those of its parts")
    split = []
    for start, end in pairwise(accumulate(sizes, initial=0)):
        split.append(bytes(parts[start:end]))
        yield
    return split


def _check_extraction(value: Any) -> None:
    try:
        structured.Extraction.from_json(value)
    except ExtractError:
        return  # the worker says that it could not extract
    except ValueError:
        raise BadMessage("an extraction of another form") from None


def _failure(told: Any) -> tuple[str, str]:
    if not _all_of(str, told) or len(told) != len(("kind", "text")):
        raise BadMessage("a failure that is not a kind and a text")
    kind, text = told
    if kind not in _FAILURES:
        raise BadMessage("a failure of a kind that no page has")
    return kind, text[:MAX_FAILURE_CHARS]


def _loads(data: Buffer) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise BadMessage("an answer that is not JSON") from None


def _columns(told: Any) -> list[list[Any]]:
    if told == []:
        return []
    if not isinstance(told, list) or len(told) != len(_COLUMNS):
        raise BadMessage("outlinks that are not three columns")
    if not all(map(_all_of, _COLUMNS, told)) or len(set(map(len, told))) != 1:
        raise BadMessage("columns of outlinks of other types or lengths")
    if not all(url.startswith(("http://", "https://")) for url in told[0]):
        raise BadMessage("an outlink that leads to no web page")
    return told


def _all_of(kind: type, values: Any) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= {kind}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadMessage("a value that is no object where one belongs")
    return value


def _text(value: Any, most: int) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > most):
        raise BadMessage("a value that is no text of its length where one belongs")
    return value


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise BadMessage("a value that is not of its form")
    return value


def _directives(value: Any) -> frozenset[str]:
    if not _all_of(str, value) or not _DIRECTIVES.issuperset(value):
        raise BadMessage("robots directives that are none")
    return frozenset(value)


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadMessage("a text that is not UTF-8") from None


def _short(data: bytes) -> bytes:
    if len(data) > MAX_SKETCH_BYTES:
        raise BadMessage("a sketch of more bytes than one has")
    return data
