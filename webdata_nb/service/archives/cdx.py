"""Builds queries to the indexes of web archives (CDX), and parses their replies. Pure.

The Wayback Machine's CDX server replies with a JSON array of arrays, the first of which names the
fields. pywb, and with it Common Crawl, sends an object in each line.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from webdata_nb.contract.archives import without_scheme
from webdata_nb.contract.choices import CaptureMatch
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url

# Of a reply: some six for each of its lines, of which there are 15,000 at most.
MAX_VALUES: Final = 1_000_000
_BEFORE_VALUES: Final = (b",", b"[", b"{", b"\n")
_TIMESTAMP: Final = "%Y%m%d%H%M%S"
_FIELDS: Final = ("timestamp", "original", "mimetype", "statuscode", "digest", "length")
_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_STATUS: Final = re.compile(r"[1-9][0-9]{2}")
_DIGEST: Final = re.compile(r"[A-Za-z0-9:]{1,128}")
_MIME_TYPE: Final = re.compile(r"[!-~]{1,200}")


class UnreadableIndex(Exception):
    """A reply is not one of an index; the text says what it is."""


@dataclass(frozen=True, slots=True)
class CdxQuery:
    """Which captures are listed; `start` and `end` are included.

    With `distinct`, captures with the content of the one before may be left out.
    """

    url: str
    match: CaptureMatch = "exact"
    start: datetime | None = None
    end: datetime | None = None
    distinct: bool = False

    def fields(self) -> dict[str, str]:
        """Return the parameters that all CDX servers share."""
        times = {"from": self.start, "to": self.end}
        return {
            "url": self.url,
            "matchType": self.match,
            "output": "json",
            **{name: format_timestamp(at) for name, at in times.items() if at is not None},
        }


@dataclass(frozen=True, slots=True)
class CdxCapture:
    """A line of an index. `filename` and `offset` are those of a record in Common Crawl."""

    url: str
    captured_at: datetime
    index: str
    status: int | None = None
    mime_type: str | None = None
    digest: str | None = None
    length: int | None = None
    filename: str | None = None
    offset: int | None = None


def format_timestamp(at: datetime) -> str:
    """Return a time as the 14 digits of archives."""
    return at.astimezone(UTC).strftime(_TIMESTAMP)


def parse_timestamp(text: str) -> datetime | None:
    """Return the time of 14 digits; None for other text."""
    try:
        is_timestamp = len(text) == len("20240601000000") and text.isascii() and text.isdecimal()
        return datetime.strptime(text, _TIMESTAMP).replace(tzinfo=UTC) if is_timestamp else None
    except ValueError:
        return None


def capture_key(url: str) -> str | None:
    """Return a key that is equal for URLs which archives do not tell apart; None for no URL.

    Examples
    --------
    >>> capture_key("https://www.example.com:443/a?") == capture_key("http://example.com/a")
    True
    """
    try:
        return without_scheme(canonical_key(canonical_url(url)))
    except FetchError:
        return None


def wayback_query(query: CdxQuery, limit: int, cursor: str | None) -> str:
    """Return the parameters of a query to the Wayback Machine."""
    fields = {
        **query.fields(),
        "fl": ",".join(_FIELDS),
        "limit": str(limit),
        "showResumeKey": "true",
    }
    if query.distinct and query.match == "exact":
        # It compares neighbouring lines, which may otherwise be of different URLs.
        fields["collapse"] = "digest"
    if cursor is not None:
        fields["resumeKey"] = cursor
    return urlencode(fields)


def parse_wayback(body: bytes, index: str) -> tuple[list[CdxCapture], str | None]:
    """Return the captures of a reply and the key with which the next one resumes.

    Raises
    ------
    UnreadableIndex
        It is no array of arrays.
    """
    rows = parse_json(body.strip() or b"[]")
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise UnreadableIndex("it sent no list of captures")
    resume_key = None
    if len(rows) > 1 and not rows[-2] and len(rows[-1]) == 1:
        resume_key, rows = str(rows[-1][0]), rows[:-2]
    names = [str(name) for name in rows[0]] if rows else []
    lines = (dict(zip(names, row, strict=False)) for row in rows[1:])
    captures = (_capture(line, index) for line in lines)
    return [capture for capture in captures if capture is not None], resume_key


def parse_lines(body: bytes, index: str) -> list[CdxCapture]:
    """Return the captures of a reply with an object in each line; raises `UnreadableIndex`."""
    _check_size(body)
    lines = [parse_json(line) for line in body.split(b"\n") if line.strip()]
    if not all(isinstance(line, dict) for line in lines):
        raise UnreadableIndex("it sent no list of captures")
    captures = (_capture(line, index) for line in lines)
    return [capture for capture in captures if capture is not None]


def pack_captures(captures: Iterable[CdxCapture]) -> bytes:
    """Return captures as compact bytes."""
    return zlib.compress(orjson.dumps(list(captures)))


def unpack_captures(data: bytes) -> list[CdxCapture]:
    """Return the captures that `pack_captures` packed."""
    rows = orjson.loads(zlib.decompress(data))  # noqa: TID251 - our own record
    return [
        CdxCapture(**{**row, "captured_at": datetime.fromisoformat(row["captured_at"])})
        for row in rows
    ]


def parse_json(data: bytes) -> Any:
    """Return the value of a reply; raises `UnreadableIndex`."""
    _check_size(data)
    try:
        return decode_json(data)
    except MalformedJson:
        raise UnreadableIndex("it sent something that is no JSON") from None


def _check_size(data: bytes) -> None:
    """Refuse a reply with more values than a listing has, which could take all memory."""
    if sum(map(data.count, _BEFORE_VALUES)) > MAX_VALUES:
        raise UnreadableIndex(f"it sent more than {MAX_VALUES:,} values")


def _capture(line: Mapping[str, Any], index: str) -> CdxCapture | None:
    """Return the capture of a line; None where it has no time or no web address."""
    texts = {name: str(value) for name, value in line.items()}
    url, at = texts.get("original", texts.get("url", "")), texts.get("timestamp", "")
    captured_at = parse_timestamp(at)
    if captured_at is None or capture_key(url) is None:
        return None
    filename = texts.get("filename")
    return CdxCapture(
        canonical_url(url),
        captured_at,
        index,
        _number(texts.get("statuscode", texts.get("status")), _STATUS),
        _text(texts.get("mimetype", texts.get("mime")), _MIME_TYPE),
        _text(texts.get("digest"), _DIGEST),
        _number(texts.get("length"), _DIGITS),
        filename,
        _number(texts.get("offset"), _DIGITS),
    )


def _number(text: str | None, form: re.Pattern[str]) -> int | None:
    return int(text) if text is not None and form.fullmatch(text) else None


def _text(text: str | None, form: re.Pattern[str]) -> str | None:
    # A hyphen stands for a missing value.
    return text if text not in {None, "-"} and form.fullmatch(text or "") else None
