"""A small service that obeys the wire contract, on loopback, and does what a test tells it to.

It stands in for any service behind a base URL: it checks the bearer key and every request body
against the contract's models, keeps jobs, pages rows, and logs what it was asked.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from webdata_nb.contract import paths
from webdata_nb.contract.fields import Strict
from webdata_nb.contract.requests import (
    CrawlRequest,
    CreativesRequest,
    ExtendedCrawlRequest,
    SearchRequest,
)

KEY: Final = "wd-test-key"
Row = dict[str, Any]


def search_rows(count: int) -> list[Row]:
    return [
        {
            "id": f"r{rank}",
            "url": f"https://site.test/{rank}",
            "rank": rank,
            "title": f"Result {rank}",
            "snippet": f"About {rank}",
            "success": True,
            "scraped": True,
            "markdown": f"# Result {rank}",
            "metadata": {"language": "en"},
        }
        for rank in range(1, count + 1)
    ]


def crawl_rows(count: int) -> list[Row]:
    return [
        {
            "url": f"https://site.test/{number}",
            "title": f"Page {number}",
            "status": "completed",
            "status_code": 200,
            "success": True,
            "depth": min(number, 3),
            "time_taken": 0.25,
            "quality": {"score": 0.5},
            "content_hash": f"{number:064x}",
            "fetched_at": "2026-11-20T10:00:00.250000Z",
            "markdown": f"# Page {number}",
            "links": [f"https://site.test/{number + 1}"],
            "metadata": {"language": "en"},
        }
        for number in range(count)
    ]


def engine_rows() -> list[Row]:
    lacking = {"usable": False, "why": "no key: set WEBDATA_BRAVE_KEY", "resting_s": 0.0}
    state = {"usable": True, "why": None, "resting_s": 0.0}
    return [
        {"engine": "engine_one", "position": 1, "provider": "brave", **lacking},
        {"engine": "engine_one", "position": 2, "provider": "local", **state},
    ]


def creative_rows(count: int) -> list[Row]:
    return [
        {"position": n, "advertiser_id": "AR1", "creative_id": f"CR{n}", "preview_url": None}
        for n in range(1, count + 1)
    ]


@dataclass
class JobScript:
    """How the next jobs of a kind go."""

    rows: list[Row]
    total: int | None = None
    status: str = "completed"
    error: str | None = None
    reply_fields: dict[str, Any] = field(default_factory=dict)
    running: bool = False
    ignores_page: bool = False


@dataclass
class Job:
    kind: str
    body: Row
    script: JobScript
    cancelled: bool = False

    @property
    def status(self) -> str:
        if self.cancelled:
            return "cancelled"
        return "running" if self.script.running else self.script.status


@dataclass
class ReceivedRequest:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class _UvicornServer(uvicorn.Server):
    """Closes the connections of requests that are not answered yet when it is forced to exit."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop closes aborted sockets in its next round


def _rows_of(job: Job) -> list[dict[str, Any]]:
    """Return the rows of a crawl; of a list, one for each page."""
    urls = job.body.get("urls")
    if urls is None:
        return job.script.rows
    return [{**job.script.rows[0], "url": url} for url in urls]


class WireService:
    """The service, served while the context is open; `requests` logs every request,
    `polled` tells that somebody waits for a job."""

    def __init__(self) -> None:
        self.reset()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        config = uvicorn.Config(self._app(), log_level="critical", lifespan="off", ws="none")
        self._server = _UvicornServer(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    def reset(self) -> None:
        """Forget every job and request, and go by the first scripts again."""
        self.search = JobScript(search_rows(3))
        self.crawl = JobScript(crawl_rows(5))
        self.creatives: list[Row] = creative_rows(5)
        self.usage: Row = {
            "success": True,
            "plan": "team",
            "monthly": 1000,
            "monthly_left": 988.0,
            "topup": 0,
            "reserved": 2,
            "used": 10,
            "period_start": "2026-11-01T00:00:00Z",
            "period_end": "2026-12-01T00:00:00Z",
            "active": 1,
            "limit": 8,
            "scopes": ["search", "read"],
            "key_ends_at": None,
            "operations": [{"platform": "crawl", "operation": "page", "units": 10, "credits": 10}],
        }
        self.weights: list[Row] = [{"platform": "crawl", "operation": "page", "weight": 1.0}]
        self.creatives_cursor: str | None = None
        self.engines: list[Row] = engine_rows()
        self.files: dict[str, bytes] = {}
        self.fault: Callable[[str, dict[str, str]], Response | None] = lambda _path, _query: None
        self.silent = False
        self.cut_exports = False
        self.exported: bytes | None = None
        self.has_receipts = False
        self.honours_idempotency_keys = False
        self.offers_extended_crawls = False
        self.api_keys = {KEY}
        self._jobs_by_key: dict[tuple[str | None, str], str] = {}
        self.jobs: dict[str, Job] = {}
        self.requests: list[ReceivedRequest] = []
        self.polled = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._socket.listen(128)  # connections queue from here on, so nobody waits for a start
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join()
        self._socket.close()

    def posted(self, path: str) -> list[Any]:
        """Return the bodies that were posted to `path`."""
        return [each.body for each in self.requests if (each.method, each.path) == ("POST", path)]

    def final_statuses(self) -> list[str]:
        """Return the status of each job once no job runs.

        A cancelled call waits 2.5 s for its service; on a busy machine the request that cancels
        its job may be served after that.
        """
        deadline = time.monotonic() + 60
        while "running" in (found := [job.status for job in self.jobs.values()]):
            assert time.monotonic() < deadline, f"still running: {found}"
            time.sleep(0.02)
        return found

    # ------------------------------------------------------------------------------- the routes

    def _app(self) -> Starlette:
        handlers = {
            ("POST", paths.SEARCH): self._start_search,
            ("POST", paths.CRAWL): self._start_crawl,
            ("POST", paths.EXTENDED_CRAWLS): self._start_extended_crawl,
            ("GET", paths.SEARCH_JOB): self._search_status,
            ("GET", paths.CRAWL_JOB): self._crawl_status,
            ("GET", paths.CRAWL_RECEIPT): self._receipt,
            ("GET", paths.SEARCH_EXPORT): self._export,
            ("GET", paths.CRAWL_EXPORT): self._export,
            ("POST", paths.JOB_CANCEL): self._cancel,
            ("POST", paths.JOB_RETRY): self._retry,
            ("DELETE", paths.JOB): self._delete,
            ("POST", paths.CREATIVES): self._creatives,
            ("GET", paths.ADVERTISERS): self._advertisers,
            ("GET", paths.CREATIVES_FILE): self._file,
            ("GET", paths.JOBS): self._jobs,
            ("GET", paths.WEIGHTS): self._weights,
            ("GET", paths.ENGINES): self._engines,
            ("GET", paths.USAGE): self._usage,
        }
        return Starlette(
            routes=[
                Route(path, self._guarded(handler), methods=[method])
                for (method, path), handler in handlers.items()
            ]
        )

    def _guarded(self, handler: Any) -> Any:
        async def endpoint(request: Request) -> Response:
            body = await request.json() if await request.body() else None
            self.requests.append(
                ReceivedRequest(
                    request.method,
                    request.url.path,
                    dict(request.query_params),
                    dict(request.headers),
                    body,
                )
            )
            if request.headers.get("authorization") not in {f"Bearer {k}" for k in self.api_keys}:
                return JSONResponse({"detail": "no such key"}, 401)
            if self.silent:
                await request.receive()  # until the caller has had enough
            fault = self.fault(request.url.path, dict(request.query_params))
            if fault is not None:
                return fault
            try:
                answer: Response = handler(request, body)
            except ValidationError as error:
                detail = error.errors(include_input=False, include_url=False, include_context=False)
                return JSONResponse({"detail": detail}, 422)
            except KeyError:
                return JSONResponse({"detail": "no such job"}, 404)
            return answer

        return endpoint

    def _start(self, request: Request, model: type[Strict], body: Any) -> Response:
        model.model_validate(body)
        kind, script = ("search", self.search) if model is SearchRequest else ("crawl", self.crawl)
        job_id = str(uuid.uuid4())
        key = request.headers.get("idempotency-key")
        if key is not None and self.honours_idempotency_keys:
            account = request.headers.get("authorization")
            job_id = self._jobs_by_key.setdefault((account, key), job_id)
        self.jobs.setdefault(job_id, Job(kind, body, script))
        started = {"success": True, "job_id": job_id, "status": "started", "message": kind}
        return JSONResponse(started)

    def _start_search(self, request: Request, body: Any) -> Response:
        return self._start(request, SearchRequest, body)

    def _start_crawl(self, request: Request, body: Any) -> Response:
        return self._start(request, CrawlRequest, body)

    def _start_extended_crawl(self, request: Request, body: Any) -> Response:
        if not self.offers_extended_crawls:
            return JSONResponse({"detail": "Not Found"}, 404)
        return self._start(request, ExtendedCrawlRequest, body)

    def _search_status(self, request: Request, _body: Any) -> Response:
        job_id, job = self._job(request, "search")
        script = job.script
        total = len(script.rows) if script.total is None else script.total
        reply = {
            "success": True,
            "job_id": job_id,
            "status": job.status,
            "query": job.body["query"],
            "engine_requested": job.body.get("engine", "engine_one"),
            "engine_used": "engine_one",
            "provider_used": "stand-in",
            "fallback_used": False,
            "fallback_chain": [
                {
                    "provider": "stand-in",
                    "status": "ok",
                    "results_count": len(script.rows),
                    "elapsed_ms": 12,
                }
            ],
            "total_results": total,
            "completed_results": len(script.rows),
            "time_taken": 0.5,
            "error": script.error,
            "data": _data(request, script.rows),
            **script.reply_fields,
        }
        return JSONResponse(reply)

    def _crawl_status(self, request: Request, _body: Any) -> Response:
        job_id, job = self._job(request, "crawl")
        script = job.script
        page = 1 if script.ignores_page else int(request.query_params.get("page", "1"))
        per_page = int(request.query_params.get("per_page", "100"))
        published = _rows_of(job)[: job.body.get("max_pages")]
        rows = published[(page - 1) * per_page : page * per_page]
        total = len(published) if script.total is None else script.total
        reply = {
            "success": True,
            "job_id": job_id,
            "status": job.status,
            "total_pages": total,
            "completed_pages": len(published),
            "total_results": total,
            "per_page": per_page,
            "time_taken": 0.5,
            "error": script.error,
            "data": _data(request, rows),
            **({} if script.ignores_page else {"page": page}),
            **script.reply_fields,
        }
        return JSONResponse(reply)

    def _receipt(self, request: Request, _body: Any) -> Response:
        if not self.has_receipts:
            raise KeyError(request.path_params["job_id"])
        job_id, job = self._job(request, "crawl")
        url = request.query_params.get("url")
        rows = [row for row in _rows_of(job) if url in {None, row["url"]}]
        entries = [{"url": row["url"], "outcome": "fetched"} for row in rows]
        return JSONResponse(
            {
                "job_id": job_id,
                "status": job.status,
                "total_results": len(rows),
                "page": 1,
                "data": entries,
            }
        )

    def _cancel(self, request: Request, _body: Any) -> Response:
        job_id, job = self._job(request)
        if job.status not in {"running", "cancelled"}:
            return JSONResponse({"detail": f"the job is {job.status}"}, 400)
        job.cancelled = True
        return JSONResponse({"success": True, "job_id": job_id, "status": "cancelled"})

    def _delete(self, request: Request, _body: Any) -> Response:
        job_id, job = self._job(request)
        if job.status == "running":
            return JSONResponse({"detail": "the job is running"}, 400)
        del self.jobs[job_id]
        return JSONResponse({"success": True, "job_id": job_id, "status": "deleted"})

    def _retry(self, request: Request, _body: Any) -> Response:
        job_id, job = self._job(request)
        if job.status not in {"failed", "cancelled"}:
            return JSONResponse({"detail": f"the job is {job.status}"}, 400)
        script = self.search if job.kind == "search" else self.crawl
        new = str(uuid.uuid4())
        self.jobs[new] = Job(job.kind, job.body, script)
        return JSONResponse({"success": True, "original_job_id": job_id, "new_job_id": new})

    def _export(self, request: Request, _body: Any) -> Response:
        self._job(request)
        body = self.exported
        if body is None:
            body = f'{{"format": "{request.query_params["format"]}"}}'.encode()
        if not self.cut_exports:
            return Response(body, media_type="application/octet-stream")

        async def half() -> AsyncIterator[bytes]:
            yield body
            raise ConnectionResetError

        return StreamingResponse(half())

    def _creatives(self, _request: Request, body: Any) -> Response:
        request = CreativesRequest.model_validate(body)
        start = int(request.cursor or 0)
        rows = self.creatives[start : start + request.limit]
        after = start + request.limit
        cursor = str(after) if after < len(self.creatives) else self.creatives_cursor
        reply = {
            "success": True,
            "source": "partner_ads_transparency",
            "operation": "creatives",
            "advertiser_id": request.advertiser,
            "region": request.region,
            "total_results": len(rows),
            "time_taken": 0.1,
            "creatives": rows,
            **({} if cursor is None else {"cursor": cursor}),
        }
        return JSONResponse(reply)

    def _advertisers(self, request: Request, _body: Any) -> Response:
        found = [
            {"rank": rank, "advertiser_id": f"AR{rank}", "name": f"Fulmar {rank}", "ads_max": 200}
            for rank in (1, 2)
        ]
        query = request.query_params["query"]
        return JSONResponse({"success": True, "query": query, "advertisers": found})

    def _file(self, request: Request, _body: Any) -> Response:
        return Response(self.files[request.path_params["sha256"]], media_type="image/png")

    def _jobs(self, _request: Request, _body: Any) -> Response:
        listed = [
            {
                "job_id": job_id,
                "type": job.kind,
                "status": job.status,
                "subject": job.body.get("query") or job.body.get("url"),
                "created_at": "2026-11-20T10:00:00Z",
                "total": len(job.script.rows),
                "completed": len(job.script.rows),
            }
            for job_id, job in reversed(self.jobs.items())
        ]
        return JSONResponse({"success": True, "jobs": listed})

    def _usage(self, _request: Request, _body: Any) -> Response:
        return JSONResponse(self.usage)

    def _weights(self, _request: Request, _body: Any) -> Response:
        return JSONResponse(self.weights)

    def _engines(self, _request: Request, _body: Any) -> Response:
        return JSONResponse({"success": True, "engines": self.engines})

    def _job(self, request: Request, kind: str | None = None) -> tuple[str, Job]:
        job_id: str = request.path_params["job_id"]
        job = self.jobs[job_id]
        if kind not in (None, job.kind):
            raise KeyError(job_id)
        self.polled.set()
        return job_id, job


def _data(request: Request, rows: Sequence[Row]) -> list[Row]:
    wanted = request.query_params.get("include_data") != "false"
    return list(rows) if wanted else []
