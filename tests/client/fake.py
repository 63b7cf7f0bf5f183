"""A service of the contract for tests: real HTTP on loopback, with faults to order."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

KEY = "sk-test-secret-0123456789"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Fault = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """One request that arrived."""

    route: str
    at: float
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass
class Job:
    """A job that moves one state further with each status call."""

    kind: str
    rows: list[dict[str, Any]]
    states: deque[str] = field(default_factory=lambda: deque(["completed"]))
    status: str = "running"

    def step(self) -> str:
        if self.states and self.status not in ("completed", "failed", "cancelled"):
            self.status = self.states.popleft()
        return self.status


class Service:
    """What the client talks to. `quirks` switches off what another service may lack."""

    def __init__(self, *quirks: str) -> None:
        self.quirks = set(quirks)
        self.seen: list[Seen] = []
        self.faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self.jobs: dict[str, Job] = {}
        self.keys: dict[str, str] = {}
        self.events: deque[bytes] = deque()
        self.base_url = ""
        self.arrived = asyncio.Event()

    def job(self, rows: int = 0, *states: str, kind: str = "crawl") -> str:
        """Add a job with that many rows; return its id."""
        job_id = f"job/{len(self.jobs)} ü"  # ids go into paths, so this one needs quoting
        data = [{"url": f"http://site.test/{n}", "markdown": f"# {n}"} for n in range(rows)]
        self.jobs[job_id] = Job(kind, data, deque(states or ["completed"]))
        return job_id

    def on(self, route: str, *faults: Fault) -> None:
        """Let the next requests of `route` ("GET crawl") meet these faults, one each."""
        self.faults[route].extend(faults)

    def requests(self, route: str) -> list[Seen]:
        return [each for each in self.seen if each.route == route]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Service]:
        app = web.Application(middlewares=[self._middleware])
        for method, path, handler in self._routes():
            app.router.add_route(method, path, handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def _routes(self) -> list[tuple[str, str, Handler]]:
        return [
            ("POST", "/v1/search", self._start),
            ("POST", "/v1/crawl", self._start),
            ("GET", "/v1/search/{id}", self._search),
            ("GET", "/v1/crawl/{id}", self._crawl),
            ("GET", "/v1/search/{id}/events", self._events),
            ("GET", "/v1/crawl/{id}/events", self._events),
            ("GET", "/v1/crawl/{id}/export", self._export),
            ("POST", "/v1/jobs/{id}/cancel", self._cancel),
            ("POST", "/v1/jobs/{id}/retry", self._retry),
            ("GET", "/v1/jobs", self._list),
            ("GET", "/v1/data-api-weights/public", self._weights),
            ("POST", "/v1/data/partner-ads/transparency/creatives", self._creatives),
        ]

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        parts = request.rel_url.raw_path.split("/")
        last = parts[-1] if parts[-1] in {"events", "export", "cancel", "retry"} else parts[2]
        route = f"{request.method} {'creatives' if last == 'data' else last}"
        text = await request.read()
        body = orjson.loads(text) if text else None
        self.arrived.set()
        self.seen.append(Seen(route, time.monotonic(), dict(request.query), request.headers, body))
        if self.faults[route]:
            return await self.faults[route].popleft()(request, handler)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return answer({"detail": "unknown key"}, 401)
        return await handler(request)

    # ---------------------------------------------------------------------------------- handlers

    async def _start(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key = request.headers.get("Idempotency-Key", "")
        if key in self.keys and "no keys" not in self.quirks:
            return started(self.keys[key])
        rows = int(body.get("num_results", body.get("max_pages", 0)))
        job_id = self.job(rows, kind=request.path.rsplit("/", 1)[1])
        self.keys[key] = job_id
        return started(job_id)

    def _find(self, request: web.Request) -> tuple[str, Job]:
        job_id = request.match_info["id"]
        if job_id not in self.jobs:
            raise web.HTTPNotFound(text='{"detail": "no such job"}')
        return job_id, self.jobs[job_id]

    def _with_data(self, request: web.Request) -> bool:
        return "always data" in self.quirks or request.query.get("include_data") != "false"

    async def _search(self, request: web.Request) -> web.StreamResponse:
        job_id, job = self._find(request)
        status = job.step()
        return answer(
            {
                "success": True,
                "job_id": job_id,
                "status": status,
                "query": "q",
                "total_results": len(job.rows),
                "completed_results": len(job.rows) if status == "completed" else 0,
                "data": job.rows if self._with_data(request) else [],
                "error": None,
                "a_field_of_tomorrow": 1,
            }
        )

    async def _crawl(self, request: web.Request) -> web.StreamResponse:
        job_id, job = self._find(request)
        status = job.step()
        page, per_page = int(request.query["page"]), int(request.query["per_page"])
        if "page ignored" in self.quirks:
            page = 1
        rows = job.rows[(page - 1) * per_page : page * per_page]
        body: dict[str, Any] = {
            "success": True,
            "job_id": job_id,
            "status": status,
            "total_pages": len(job.rows),
            "completed_pages": len(job.rows),
            "total_results": len(job.rows),
            "page": page,
            "per_page": per_page,
            "data": rows if self._with_data(request) else [],
        }
        for name in ("page", "total_results"):
            if f"no {name}" in self.quirks:
                del body[name]
        return answer(body)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if "no events" in self.quirks:
            raise web.HTTPNotFound(text="{}")
        self._find(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while self.events:
            piece = self.events.popleft()
            if piece == BREAK:
                break
            await response.write(piece)
        return response

    async def _export(self, request: web.Request) -> web.StreamResponse:
        _, job = self._find(request)
        return answer({"format": request.query["format"], "rows": len(job.rows)})

    async def _cancel(self, request: web.Request) -> web.StreamResponse:
        job_id, job = self._find(request)
        if job.status in ("completed", "failed"):
            return answer({"detail": f"the job is {job.status}"}, 400)
        job.status = "cancelled"
        return answer({"success": True, "job_id": job_id, "status": "cancelled"})

    async def _retry(self, request: web.Request) -> web.StreamResponse:
        job_id, job = self._find(request)
        new = self.job(len(job.rows), kind=job.kind)
        return answer({"success": True, "new_job_id": new, "original_job_id": job_id})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if "no keys" in self.quirks:
            raise web.HTTPNotFound(text="not here")
        names = list(self.jobs)
        at, limit = int(request.query.get("cursor", 0)), int(request.query["limit"])
        entry = {"type": "crawl", "status": "completed", "created_at": "2026-01-01T00:00:00Z"}
        jobs = [{"job_id": name, **entry} for name in names[at : at + limit]]
        more = {"cursor": str(at + limit)} if at + limit < len(names) else {}
        return answer({"success": True, "jobs": jobs, **more})

    async def _weights(self, _: web.Request) -> web.StreamResponse:
        return answer([{"platform": "crawl", "operation": "page", "weight": 1.5, "since": "v2"}])

    async def _creatives(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        page = int(body.get("cursor", "0"))
        row = {"position": page, "advertiser_id": "AR1", "creative_id": f"CR{page}"}
        follow = {0: "1", 1: "2", 2: "1" if "cursor loop" in self.quirks else None}[page]
        return answer(
            {"success": True, "advertiser_id": "AR1", "creatives": [row], "cursor": follow}
        )


BREAK = b"\0break"


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(body),
        status=status,
        content_type="application/json",
        headers=headers,
    )


def started(job_id: str) -> web.Response:
    return answer({"success": True, "job_id": job_id, "status": "started", "message": "go"})


# ------------------------------------------------------------------------------------------ faults


def status(code: int, body: Any = None, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def fault(_: web.Request, __: Handler) -> web.StreamResponse:
        return answer({"detail": f"status {code}"} if body is None else body, code, named)

    return fault


def text(body: bytes, code: int = 200, content_type: str = "text/html") -> Fault:
    async def fault(_: web.Request, __: Handler) -> web.StreamResponse:
        return web.Response(body=body, status=code, content_type=content_type)

    return fault


async def reset(request: web.Request, _: Handler) -> web.StreamResponse:
    """Cut the connection before anything is done."""
    return _cut(request)


async def lose_answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Do the work, then cut the connection."""
    await handler(request)
    return _cut(request)


async def truncate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send half of the body that the headers announce."""
    whole = await handler(request)
    assert isinstance(whole, web.Response)
    assert isinstance(whole.body, bytes)
    half = web.StreamResponse(status=whole.status, headers=whole.headers)
    half.content_length = len(whole.body)
    await half.prepare(request)
    await half.write(whole.body[: len(whole.body) // 2])
    return _cut(request)


async def truncate_silently(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send half of the body, and headers that agree with it."""
    whole = await handler(request)
    assert isinstance(whole, web.Response)
    assert isinstance(whole.body, bytes)
    return web.Response(body=whole.body[: len(whole.body) // 2], content_type="application/json")


class Gate:
    """Holds a request, after its work is done, until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        done = await handler(request)
        self.reached.set()
        await self.open.wait()
        return done


def _cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
