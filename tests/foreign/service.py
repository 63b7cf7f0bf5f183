"""A service of another maker, written from the contract alone: strict in requests, lean in replies.

It shares no code with this project, so that it shows what another implementation may do: it
refuses parameters and fields that the contract does not list, sends no field beyond the contract,
and has none of our extras (event streams, lists of jobs, receipts, usage, engines).
"""

from __future__ import annotations

import io
import json
import threading
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

KEY: Final = "key-of-another-maker"
Fields = dict[str, Any]

_FORMATS: Final = frozenset(
    {"markdown", "html", "raw_html", "links", "images", "headings", "structured_data", "screenshot"}
)
_SEARCH: Final = frozenset(
    {
        "query",
        "num_results",
        "engine",
        "language",
        "country",
        "safe_search",
        "formats",
        "format_options",
        "only_main_content",
        "mobile",
        "mobile_device",
        "headers",
        "cookies",
        "extract",
        "webhook_url",
        "webhook_secret",
    }
)
_CRAWL: Final = frozenset(
    {
        "url",
        "max_pages",
        "max_depth",
        "concurrency",
        "crawl_strategy",
        "allow_external_links",
        "respect_robots_txt",
        "include_paths",
        "exclude_paths",
        "scrape_options",
        "filter_faceted_urls",
        "webhook_url",
        "webhook_secret",
    }
)
_SCRAPE: Final = frozenset(
    {
        "formats",
        "only_main_content",
        "wait_for",
        "timeout",
        "mobile",
        "include_tags",
        "exclude_tags",
        "extract",
    }
)
_CREATIVES: Final = frozenset(
    {
        "advertiser_id",
        "url",
        "startUrls",
        "region",
        "limit",
        "cursor",
        "date_range",
        "skip_details",
        "should_download_assets",
        "should_download_previews",
        "ocr",
        "timeout_ms",
    }
)
_BOUNDS: Final = {
    "num_results": (1, 50),
    "max_pages": (1, 1000),
    "max_depth": (1, 10),
    "concurrency": (1, 10),
    "limit": (1, 40),
    "timeout_ms": (5000, 90000),
}
_ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_SITE: Final = "https://site.test/"


@dataclass(frozen=True)
class Variant:
    """What the contract leaves open, or allows in two ways.

    `refusal` is the status of a refused parameter, `error_body` the shape of errors, and
    `names_field` whether they name it. `paging`: `pages` knows `page` and `per_page`; `fixed`
    knows `page` alone; `first` has no parameter, and shows the first page; `whole` shows all rows
    in every reply. Without `strict`, unknown parameters are ignored. `row_status` is the `status`
    of a crawled page: a word, a code, or left out. `retry_after` is the unit of that header.
    """

    refusal: int = 422
    error_body: Literal["detail", "list", "nested", "message", "text", "empty"] = "detail"
    names_field: bool = True
    strict: bool = True
    start_status: str = "started"
    paging: Literal["pages", "fixed", "first", "whole"] = "pages"
    page_size: int = 20
    nulls: bool = False
    counts: bool = True
    row_status: Literal["word", "code", "none"] = "word"
    missing_path: int = 404
    retry_after: Literal["seconds", "date"] = "seconds"


@dataclass
class ForeignJob:
    """A job that gets a step further with each status reply; a held one never ends by itself."""

    kind: str
    request: Fields
    job_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = "pending"
    reads: int = 0


@dataclass
class Reply:
    """A reply that is to be sent."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


class ForeignService:
    """The service, on a port of the loopback interface; enter it to run it.

    Attributes
    ----------
    site_pages, failing_pages : int
        Pages of the crawled site, and those that fail.
    steps : int
        Status replies of a job before it has ended.
    held : bool
        Whether jobs run until they are cancelled.
    fails : bool
        Whether jobs end as failed.
    limit_replies : int
        Next starts that are refused as one too many.
    answers_starts : bool
        Whether jobs can be started.
    unreadable : bool
        Whether the state of no job can be read.
    alter : Callable
        Changes each JSON object before it is sent.
    """

    def __init__(self, variant: Variant | None = None) -> None:
        self.variant = variant or Variant()
        self.jobs: dict[str, ForeignJob] = {}
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.refused: list[str] = []
        self.sent_bytes: Counter[str] = Counter()
        self.site_pages, self.failing_pages, self.row_bytes = 3, 0, 0
        self.steps, self.held, self.fails, self.limit_replies = 2, False, False, 0
        self.expired = self.unreadable = False
        self.answers_starts = True
        self.alter: Callable[[Fields], Fields] = dict
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def running(self) -> list[ForeignJob]:
        """The jobs that have not ended."""
        return [job for job in self.jobs.values() if job.status not in _ENDED]

    def count(self, method: str, part: str) -> int:
        """Return how many requests had this method, and `part` in their path."""
        return sum(each[0] == method and part in each[1] for each in self.requests)

    # ---------------------------------------------------------------------------------- requests

    def answer(self, method: str, target: str, key: str, content: bytes) -> Reply:
        """Answer one request."""
        address = urlsplit(target)
        query = dict(parse_qsl(address.query, keep_blank_values=True))
        body = json.loads(content) if content else None
        with self._lock:
            self.requests.append((method, address.path, query, body))
            if key != f"Bearer {KEY}":
                return self._error(401, "unknown key")
            reply = self._route(method, address.path, query, body)
            if reply.status == 200 and reply.body.startswith(b"{"):
                reply = _json(self.alter(json.loads(reply.body)))
            self.sent_bytes[address.path] += len(reply.body)
            return reply

    def _route(self, method: str, path: str, query: dict[str, str], body: Any) -> Reply:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:1] != ["v1"]:
            return self._error(404, "Not Found")
        match (method, *parts[1:]):
            case ("POST", "search" | "crawl" as kind):
                return self._start(kind, query, body)
            case ("GET", "search" | "crawl" as kind, job_id):
                return self._status(kind, job_id, query)
            case ("GET", "search" | "crawl" as kind, job_id, "export"):
                return self._export(kind, job_id, query)
            case ("POST", "jobs", job_id, "cancel" | "retry" as action):
                return self._control(job_id, action, query)
            case ("POST", "data", "partner-ads", "transparency", "creatives"):
                return self._creatives(query, body)
            case ("GET", "data-api-weights", "public"):
                weights = {"crawl": "page", "search": "query", "partner-ads": "creatives"}
                names = ("platform", "operation", "weight")
                rows = [dict(zip(names, (*each, 1), strict=True)) for each in weights.items()]
                return _json(rows)
            case _:
                return self._error(self.variant.missing_path, "Not Found")

    def _unknown(self, names: set[str], known: frozenset[str], place: str) -> Reply | None:
        unknown = sorted(names - known) if self.variant.strict else []
        if not unknown:
            return None
        self.refused.append(unknown[0])
        text = f"unexpected {place} {unknown[0]!r}" if self.variant.names_field else "bad request"
        return self._error(self.variant.refusal, text, unknown[0], place)

    def _error(self, status: int, text: str, name: str = "", place: str = "query") -> Reply:
        shape = self.variant.error_body
        if shape == "empty":
            return Reply(status, b"", {})
        if shape == "text":
            return Reply(status, text.encode(), {"Content-Type": "text/plain"})
        if shape == "list" and name and self.variant.names_field:
            entry = {"loc": [place, name], "msg": "Extra inputs are not permitted", "type": "extra"}
            return _json({"detail": [entry]}, status)
        if shape == "nested":
            return _json({"error": {"message": text}}, status)
        return _json({"message" if shape == "message" else "detail": text}, status)

    # -------------------------------------------------------------------------------------- jobs

    def _start(self, kind: str, query: dict[str, str], body: Any) -> Reply:
        refusal = self._unknown(set(query), frozenset(), "query") or self._invalid(kind, body)
        if refusal is not None:
            return refusal
        if not self.answers_starts:
            return self._error(self.variant.refusal, "no jobs today")
        if self.limit_replies:
            self.limit_replies -= 1
            after = "1" if self.variant.retry_after == "seconds" else formatdate(usegmt=True)
            headers = {
                "Retry-After": after,
                "X-Concurrency-Limit": "1",
                "X-Concurrency-Active": "1",
            }
            reply = _json({"detail": "concurrency limit 1 reached, 1 active"}, 429)
            return Reply(429, reply.body, reply.headers | headers)
        job = ForeignJob(kind, body)
        self.jobs[job.job_id] = job
        start = {"success": True, "job_id": job.job_id, "status": self.variant.start_status}
        return _json(start | ({"message": None} if self.variant.nulls else {}))

    def _invalid(self, kind: str, body: Any) -> Reply | None:
        known, subject = (_SEARCH, "query") if kind == "search" else (_CRAWL, "url")
        if not isinstance(body, dict) or not isinstance(body.get(subject), str):
            return self._error(422, f"{subject} is required", subject, "body")
        scrape = body.get("scrape_options", {})
        refusal = self._unknown(set(body), known, "body") or self._unknown(
            set(scrape), _SCRAPE, "body"
        )
        formats = scrape.get("formats", body.get("formats", []))
        if refusal is None and (unknown := sorted(set(formats) - _FORMATS)):
            return self._error(422, f"unknown format {unknown[0]!r}", "formats", "body")
        return refusal or self._out_of_bounds(body)

    def _out_of_bounds(self, body: Fields) -> Reply | None:
        for name, (lower, upper) in _BOUNDS.items():
            if name in body and not lower <= body[name] <= upper:
                return self._error(422, f"{name} must be from {lower} to {upper}", name, "body")
        return None

    def _status(self, kind: str, job_id: str, query: dict[str, str]) -> Reply:
        job = self.jobs.get(job_id)
        if job is None or job.kind != kind:
            return self._error(404, "no such job")
        paging = self.variant.paging
        params = {"pages": frozenset({"page", "per_page"}), "fixed": frozenset({"page"})}
        known = params.get(paging, frozenset[str]()) if kind == "crawl" else frozenset[str]()
        if refusal := self._unknown(set(query), known, "query"):
            return refusal
        if self.unreadable:
            return self._error(self.variant.refusal, "states are not shown")
        rows = self._advance(job)
        if kind == "search":
            return _json(self._search_status(job, rows))
        page, size = 1, self.variant.page_size
        if paging in {"pages", "fixed"}:
            page = int(query.get("page", "1"))
        if paging == "pages":
            size = int(query.get("per_page", size))
        shown = rows if paging == "whole" else rows[(page - 1) * size : page * size]
        state: Fields = {"success": True, "job_id": job_id, "status": job.status}
        if self.variant.counts:
            state |= {"total_pages": self._total(job), "completed_pages": len(rows)}
            state |= {"total_results": len(rows), "page": page, "per_page": size}
        elif self.variant.nulls:
            names = ("total_pages", "completed_pages", "total_results", "page", "per_page")
            state |= dict.fromkeys(names)
        return _json({**state, "data": shown})

    def _advance(self, job: ForeignJob) -> list[Fields]:
        """Move a job one step further; return its rows so far."""
        if job.status not in _ENDED:
            job.reads += 1
            job.status = "running"
            if job.reads > self.steps and not self.held:
                job.status = "failed" if self.fails else "completed"
        return self._rows(job)

    def _rows(self, job: ForeignJob) -> list[Fields]:
        total = self._total(job)
        done = total if job.status == "completed" else total * job.reads // (self.steps + 1)
        make = self._result if job.kind == "search" else self._page
        return [make(job, number) for number in range(min(total, max(0, done)))]

    def _total(self, job: ForeignJob) -> int:
        if job.kind == "search":
            return int(job.request.get("num_results", 10))
        return min(self.site_pages, int(job.request.get("max_pages", 1000)))

    def _search_status(self, job: ForeignJob, rows: list[Fields]) -> Fields:
        state: Fields = {"success": True, "job_id": job.job_id, "status": job.status}
        if job.status == "failed":
            state["error"] = "all providers are down"
        if self.expired:
            expiry = {"retention_hours": 48, "expired_at": "2026-01-01T00:00:00Z"}
            return {**state, "data": [], "result_expired": True, **expiry}
        if self.variant.counts:
            state |= {"query": job.request["query"], "total_results": len(rows)}
        elif self.variant.nulls:
            names = ("query", "engine_used", "total_results", "fallback_chain", "time_taken")
            state |= dict.fromkeys(names)
        return {**state, "data": rows}

    def _result(self, job: ForeignJob, number: int) -> Fields:
        """Return a search result with the two fields that are always there, and its formats."""
        row: Fields = {"id": f"r{number}", "url": f"{_SITE}{number}"}
        if self.variant.nulls:
            row |= {"title": None, "snippet": None, "error": None}
        return {**row, **_formats(job.request.get("formats", ["markdown"]), number)}

    def _page(self, job: ForeignJob, number: int) -> Fields:
        """Return a crawled page: the requested formats, its metadata, and perhaps its status."""
        failed = number >= self.site_pages - self.failing_pages
        status, code = ("failed", 404) if failed else ("completed", 200)
        formats = job.request.get("scrape_options", {}).get("formats", ["markdown"])
        row: Fields = {} if failed else _formats(formats, number)
        url = job.request["url"] if number == 0 else f"{_SITE}{number}"
        row["metadata"] = {"url": url, "title": f"Page {number}"}
        if self.row_bytes:
            row["metadata"]["description"] = "x" * self.row_bytes
        if self.variant.row_status == "word":
            row["status"] = status
        elif self.variant.row_status == "code":
            row["status"] = code
        elif failed:
            row["metadata"]["status_code"] = code
        if self.variant.nulls:
            row |= {"quality": None, "time_taken": None, "depth": None}
        return row

    # ------------------------------------------------------------------------- exports and control

    def _export(self, kind: str, job_id: str, query: dict[str, str]) -> Reply:
        job = self.jobs.get(job_id)
        if refusal := self._unknown(set(query), frozenset({"format"}), "query"):
            return refusal
        if job is None or job.kind != kind:
            return self._error(404, "no such job")
        if self.expired:
            return self._error(410, "past retention")
        rows = self._rows(job) if job.status == "completed" else []
        if not rows:
            return self._error(404, "no exportable results")
        match query.get("format", "json"):
            case "json" if kind == "search":
                empty = {"title": "", "snippet": "", "success": True}
                results = [{"url": row["url"], **empty} for row in rows]
                return _json({"query": job.request["query"], "results": results})
            case "json":
                return _json(rows)
            case "csv":
                lines = ["url", *(row.get("url") or row["metadata"]["url"] for row in rows)]
                return Reply(200, "\n".join(lines).encode(), {"Content-Type": "text/csv"})
            case "zip":
                file = io.BytesIO()
                with zipfile.ZipFile(file, "w") as archive:
                    archive.writestr("index.json", json.dumps(rows))
                return Reply(200, file.getvalue(), {"Content-Type": "application/zip"})
        return self._error(422, "format must be json, csv or zip", "format")

    def _control(self, job_id: str, action: str, query: dict[str, str]) -> Reply:
        job = self.jobs.get(job_id)
        if refusal := self._unknown(set(query), frozenset(), "query"):
            return refusal
        if job is None:
            return self._error(404, "no such job")
        if action == "cancel":
            if job.status in {"completed", "failed"}:
                return self._error(400, f"the job is {job.status}")
            job.status = "cancelled"
            state = {"success": True, "job_id": job_id}
            return _json(state if job.kind == "search" else {**state, "status": "cancelled"})
        if job.status not in {"failed", "cancelled"}:
            return self._error(400, f"the job is {job.status}")
        new = ForeignJob(job.kind, job.request)
        if job.kind == "crawl":  # the job itself, pending again
            new.job_id = job_id
            self.jobs[job_id] = new
            return _json({"success": True, "job_id": job_id, "status": "pending"})
        self.jobs[new.job_id] = new
        reply = {"success": True, "original_job_id": job_id, "new_job_id": new.job_id}
        return _json({**reply, "type": "search"})

    # --------------------------------------------------------------------------------- creatives

    def _creatives(self, query: dict[str, str], body: Any) -> Reply:
        fields = body if isinstance(body, dict) else {}
        refusal = self._unknown(set(query), frozenset(), "query") or self._unknown(
            set(fields), _CREATIVES, "body"
        )
        refusal = refusal or self._out_of_bounds(fields)
        if refusal is not None:
            return refusal
        limit, first = int(fields.get("limit", 2)), int(fields.get("cursor", 0))
        numbers = range(first, min(first + limit, 5))
        rows: list[Fields] = [{"creative_id": f"CR{n}"} for n in numbers]
        if self.variant.counts:
            rows = [{**row, "position": n + 1} for row, n in zip(rows, numbers, strict=True)]
        reply: Fields = {"success": True, "creatives": rows}
        if first + limit < 5:
            reply["cursor"] = str(first + limit)
        elif self.variant.nulls:
            reply["cursor"] = None
        return _json(reply)


def _formats(names: list[str], number: int) -> Fields:
    values: Fields = {
        "markdown": f"# Page {number}",
        "html": f"<h1>Page {number}</h1>",
        "raw_html": f"<html><h1>Page {number}</h1></html>",
        "links": [f"{_SITE}{number + 1}"],
    }
    return {name: values[name] for name in names if name in values}


def _json(body: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(body).encode())


def _handler(service: ForeignService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            key = self.headers.get("Authorization", "")
            reply = service.answer(self.command, self.path, key, content)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    return Handler
