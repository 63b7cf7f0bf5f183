"""A stub of web archives with the documented shape: indexes, replay of captures, and WARC files.

It speaks the Wayback Machine's CDX server and its `id_` replay, and Common Crawl's `collinfo.json`,
CDXJ indexes and ranges of WARC files.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from tests.site.server import Answer, Site

_REPLAY: Final = re.compile(r"/web/(\d{14})id_/(.+)", re.DOTALL)
_FIELDS: Final = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
_WARC_FOLDER: Final = "/crawl-data/"
_LINES_PER_PAGE: Final = 4


@dataclass(frozen=True, slots=True)
class StubCapture:
    """One capture; with `is_revisit` the index says that its content was that of the one before."""

    url: str
    at: datetime
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_revisit: bool = False

    @property
    def timestamp(self) -> str:
        """Its time as 14 digits."""
        return self.at.strftime("%Y%m%d%H%M%S")

    @property
    def key(self) -> str:
        """The SURT form of its URL, near enough."""
        return surt(self.url)

    @property
    def digest(self) -> str:
        """Its digest."""
        return base64.b32encode(hashlib.sha1(self.body).digest()).decode()

    @property
    def mime_type(self) -> str:
        """The type of its content."""
        return self.headers.get("Content-Type", "text/html").partition(";")[0]

    def record(self) -> bytes:
        """Return its WARC record as a gzip member."""
        named = {"Content-Type": "text/html; charset=utf-8", **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        block = f"HTTP/1.1 {self.status} X\r\n{lines}\r\n".encode() + self.body
        head = (
            f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {self.url}\r\n"
            f"WARC-Date: {self.at:%Y-%m-%dT%H:%M:%SZ}\r\n"
            "Content-Type: application/http; msgtype=response\r\n"
            f"Content-Length: {len(block)}\r\n\r\n"
        )
        return gzip.compress(head.encode() + block + b"\r\n\r\n", mtime=0)


def surt(url: str) -> str:
    """Return the key by which archives sort a URL: without scheme and www."""
    parts = urlsplit(url.lower())
    host = re.sub(r"^www\d*\.", "", parts.hostname or "")
    port = f":{parts.port}" if parts.port not in {None, 80, 443} else ""
    query = f"?{parts.query}" if parts.query else ""
    return f"{','.join(reversed(host.split('.')))}{port}){parts.path or '/'}{query}"


@dataclass(slots=True)
class WebArchiveStub:
    """Two archives behind one server; captures may be added while it runs.

    `max_lines` is the most lines of a reply of the Wayback Machine, whatever `limit` says.
    """

    site: Site
    captures: list[StubCapture] = field(default_factory=list)
    crawls: dict[str, list[StubCapture]] = field(default_factory=dict)
    excluded_hosts: set[str] = field(default_factory=set)
    lost: set[tuple[str, str]] = field(default_factory=set)
    max_lines: int = 150_000
    redirect_with_original: bool = True
    _files: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def on(cls, site: Site) -> Self:
        """Return a stub that answers at a site."""
        stub = cls(site)
        site.under("/", stub.answer)
        return stub

    @property
    def address(self) -> str:
        """Its address, as settings have it."""
        return self.site.at("").rstrip("/")

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that let a service ask it."""
        names = ("WAYBACK", "COMMONCRAWL", "COMMONCRAWL_DATA")
        return {f"WEBDATA_{name}_URL": self.address for name in names}

    def add(
        self,
        url: str,
        at: str,
        body: str | bytes = b"",
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        is_revisit: bool = False,
    ) -> StubCapture:
        """Add a capture to the Wayback Machine; `at` is in ISO 8601."""
        capture = _capture(url, at, body, status, headers or {}, is_revisit=is_revisit)
        self.captures.append(capture)
        return capture

    def add_crawl(self, name: str, *captures: StubCapture) -> None:
        """Add a crawl of Common Crawl with its captures."""
        self.crawls[name] = sorted(captures, key=lambda each: (each.key, each.at))
        self._files[name] = b"".join(each.record() for each in self.crawls[name])

    def answer(self, request: web.BaseRequest) -> Answer:
        """Answer any request."""
        path = request.raw_path
        if path.startswith("/cdx/search/cdx?"):
            return self._index(_query(path))
        if (replay := _REPLAY.fullmatch(path)) is not None:
            return self._replay(replay[1], replay[2])
        if path == "/collinfo.json":
            return web.json_response([{"id": name, **_span(name)} for name in self._newest_first])
        name = path.partition("?")[0].removeprefix("/").removesuffix("-index")
        if name in self.crawls:
            return self._crawl_index(name, _query(path))
        if path.startswith(_WARC_FOLDER):
            return self._range(path, request.headers.get("Range", ""))
        return web.Response(status=404, text="no such thing")

    # The Wayback Machine

    def _index(self, query: Mapping[str, str]) -> Answer:
        if urlsplit(query["url"]).hostname in self.excluded_hosts:
            text = "org.archive.util.io.RuntimeIOException: AdministrativeAccessControlException"
            return web.Response(status=403, text=f"{text}: Blocked Site Error")
        names = query.get("fl", ",".join(_FIELDS)).split(",")
        chosen = sorted(_matching(self.captures, query), key=lambda each: (each.key, each.at))
        lines = [_line(capture) for capture in chosen]
        if query.get("collapse") == "digest":
            lines = [
                line
                for number, line in enumerate(lines)
                if not number or line["digest"] != lines[number - 1]["digest"]
            ]
        key = re.fullmatch(r"(\d{1,9})!", query.get("resumeKey", "0!"))
        start = int(key[1]) if key else 0
        count = min(int(query.get("limit", self.max_lines)), self.max_lines)
        rows = [[line[name] for name in names] for line in lines[start : start + count]]
        reply = [names, *rows] if rows else []
        if start + count < len(lines) and query.get("showResumeKey") == "true":
            reply += [[], [f"{start + count}!"]]
        return web.json_response(reply)

    def _replay(self, timestamp: str, url: str) -> Answer:
        same = [each for each in self.captures if each.key == surt(url)]
        if not same:
            return web.Response(status=404, text="Wayback Machine has not archived that URL.")
        at = datetime.strptime(timestamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        playable = [each for each in same if (each.url, each.timestamp) not in self.lost]
        if not playable:
            return web.Response(status=404, text="The capture cannot be played back.")
        # Of captures at the same second, the one of the same URL.
        nearest = min(playable, key=lambda each: (abs(each.at - at), each.url != url))
        if nearest.timestamp != timestamp:
            location = f"{self.address}/web/{nearest.timestamp}id_/{nearest.url}"
            reason = f"found capture at {nearest.timestamp}"
            headers = {"Location": location, "x-archive-redirect-reason": reason}
            return web.Response(status=302, headers=headers)
        return self._memento(nearest)

    def _memento(self, capture: StubCapture) -> web.Response:
        named = {"Content-Type": "text/html; charset=utf-8", **capture.headers}
        headers = {f"x-archive-orig-{name}": value for name, value in named.items()}
        headers["Memento-Datetime"] = format_datetime(capture.at, usegmt=True)
        headers["Content-Type"] = named["Content-Type"]
        if (location := named.get("Location")) is not None:
            target = location if "://" in location else _origin(capture.url) + location
            headers["Location"] = f"{self.address}/web/{capture.timestamp}id_/{target}"
            if not self.redirect_with_original:
                del headers["x-archive-orig-Location"]
        return web.Response(status=capture.status, body=capture.body, headers=headers)

    # Common Crawl

    @property
    def _newest_first(self) -> list[str]:
        return sorted(self.crawls, reverse=True)

    def _crawl_index(self, name: str, query: Mapping[str, str]) -> Answer:
        lines = [self._cdxj(name, capture) for capture in _matching(self.crawls[name], query)]
        pages = -(-len(lines) // _LINES_PER_PAGE)
        if query.get("showNumPages") == "true":
            return web.json_response({"pages": pages, "pageSize": 1, "blocks": pages})
        page = int(query.get("page", "0"))
        part = lines[page * _LINES_PER_PAGE :][:_LINES_PER_PAGE]
        if not part:
            message = f"No Captures found for: {query['url']}"
            return web.json_response({"message": message}, status=404)
        return web.Response(text="".join(f"{json.dumps(line)}\n" for line in part))

    def _cdxj(self, name: str, capture: StubCapture) -> dict[str, str]:
        record = capture.record()
        return {
            "urlkey": capture.key,
            "timestamp": capture.timestamp,
            "url": capture.url,
            "mime": capture.mime_type,
            "status": str(capture.status),
            "digest": capture.digest,
            "length": str(len(record)),
            "offset": str(self._files[name].index(record)),
            "filename": f"{_WARC_FOLDER[1:]}{name}.warc.gz",
        }

    def _range(self, path: str, header: str) -> web.Response:
        data = self._files.get(path.removeprefix(_WARC_FOLDER).removesuffix(".warc.gz"))
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", header)
        if data is None or match is None:
            return web.Response(status=403 if data is None else 200, body=data or b"")
        return web.Response(status=206, body=data[int(match[1]) : int(match[2]) + 1])


def _capture(
    url: str,
    at: str,
    body: str | bytes,
    status: int,
    headers: Mapping[str, str],
    *,
    is_revisit: bool = False,
) -> StubCapture:
    data = body.encode() if isinstance(body, str) else body
    captured_at = datetime.fromisoformat(at).replace(tzinfo=UTC)
    return StubCapture(url, captured_at, data, status, headers, is_revisit)


def crawl_capture(
    url: str, at: str, body: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> StubCapture:
    """Return a capture for a crawl of Common Crawl."""
    return _capture(url, at, body, status, headers or {})


def _query(path: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])


def _span(name: str) -> dict[str, str]:
    """Return what collinfo.json says of a crawl; those of old crawls have no times."""
    year, week = name.removeprefix("CC-MAIN-").split("-")
    if int(year) < 2020:
        return {}
    days = [datetime.fromisocalendar(int(year), int(week), day) for day in (1, 7)]
    return {"from": days[0].isoformat(), "to": days[1].isoformat()}


def _line(capture: StubCapture) -> dict[str, str]:
    is_revisit = capture.is_revisit
    return {
        "urlkey": capture.key,
        "timestamp": capture.timestamp,
        "original": capture.url,
        "mimetype": "warc/revisit" if is_revisit else capture.mime_type,
        "statuscode": "-" if is_revisit else str(capture.status),
        "digest": capture.digest,
        "length": str(len(capture.body)),
    }


def _matching(captures: list[StubCapture], query: Mapping[str, str]) -> list[StubCapture]:
    wanted, match = surt(query["url"]), query.get("matchType", "exact")
    host = wanted.partition(")")[0]

    def is_wanted(capture: StubCapture) -> bool:
        start, end = query.get("from", "0"), query.get("to", "9")
        if not start <= capture.timestamp <= end + "9" * (14 - len(end)):
            return False
        if match == "exact":
            return capture.key == wanted
        if match == "prefix":
            return capture.key.startswith(wanted)
        of_host = capture.key.startswith(f"{host})")
        return of_host or (match == "domain" and capture.key.startswith(f"{host},"))

    return [capture for capture in captures if is_wanted(capture)]
