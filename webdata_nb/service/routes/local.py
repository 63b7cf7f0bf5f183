"""Control routes of the local service: identity, leases, session settings and stop.

The gate checks token, Host and Origin before these routes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from webdata_nb.contract import local, paths
from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.local import (
    Hello,
    LeaseReply,
    SessionSettings,
    SiteRequest,
    StopReply,
    StopRequest,
)
from webdata_nb.contract.replies import SiteReply
from webdata_nb.service.local_lifetime import LocalLifetime, ServiceStopping
from webdata_nb.service.routes.routing import UnprocessableRequest, field_problem

if TYPE_CHECKING:
    from starlette.requests import Request

_Body = TypeVar("_Body", bound=BaseModel)


def routes(
    lifetime: LocalLifetime,
    active_jobs: Callable[[], Awaitable[int]],
    stop: Callable[[], None],
    schema_version: int,
    remove_site: Callable[[str], Awaitable[int]],
) -> list[Route]:
    """Return the control routes.

    Parameters
    ----------
    lifetime
        Leases and lifetime of the service.
    active_jobs
        Counts jobs that are pending or running.
    stop
        Asks the server to shut down gracefully; called on the event loop.
    schema_version
        The store's schema version.
    remove_site
        Removes the pages of a URL's site from the local search; returns their number.
    """
    control = _ControlRoutes(lifetime, active_jobs, stop, schema_version, remove_site)
    return [
        Route(paths.LOCAL_HELLO, control.hello, methods=["GET"]),
        Route(paths.LOCAL_LEASE, control.renew, methods=["PUT"]),
        Route(paths.LOCAL_LEASE, control.release, methods=["DELETE"]),
        Route(paths.LOCAL_SETTINGS, control.bind, methods=["PUT"]),
        Route(paths.LOCAL_SITES_REMOVE, control.forget_site, methods=["POST"]),
        Route(paths.LOCAL_STOP, control.end, methods=["POST"]),
    ]


@dataclass(frozen=True, slots=True)
class _ControlRoutes:
    lifetime: LocalLifetime
    active_jobs: Callable[[], Awaitable[int]]
    stop: Callable[[], None]
    schema_version: int
    remove_site: Callable[[str], Awaitable[int]]

    async def hello(self, _request: Request) -> Response:
        pid = os.getpid()
        return _reply(
            Hello(
                service=local.SERVICE,
                version=self.lifetime.version,
                wire=local.WIRE,
                schema_=self.schema_version,
                pid=pid,
                pids=(pid, *_descendants(pid)),
                managed=self.lifetime.managed,
                active_jobs=await self.active_jobs(),
                leases=self.lifetime.lease_count,
                started_at=self.lifetime.started_at,
            )
        )

    async def renew(self, request: Request) -> Response:
        lease_id = request.path_params["lease_id"]
        if not local.LEASE_ID.fullmatch(lease_id):
            return JSONResponse({"detail": f"A lease id matches {local.LEASE_ID.pattern}."}, 422)
        try:
            created = self.lifetime.renew(lease_id)
        except ServiceStopping as error:
            return JSONResponse({"detail": str(error)}, 503)
        return _reply(LeaseReply(expires_in=self.lifetime.lease_s, created=created))

    async def release(self, request: Request) -> Response:
        self.lifetime.release(request.path_params["lease_id"])
        return Response(status_code=204)

    async def bind(self, request: Request) -> Response:
        settings = await _body(request, SessionSettings)
        if not self.lifetime.bind_settings(request.path_params["lease_id"], settings):
            return JSONResponse({"detail": "No such lease: renew it first."}, 404)
        return Response(status_code=204)

    async def forget_site(self, request: Request) -> Response:
        site_request = await _body(request, SiteRequest)
        return _reply(SiteReply(removed=await self.remove_site(site_request.url)))

    async def end(self, request: Request) -> Response:
        stop_request = await _body(request, StopRequest)
        active = await self.active_jobs()
        if not stop_request.force and (active or self.lifetime.lease_count):
            detail = f"In use: {active} active jobs, {self.lifetime.lease_count} other sessions."
            return JSONResponse({"detail": detail}, 409)
        self.lifetime.retire()
        return _reply(StopReply(active_jobs=active), 202, BackgroundTask(self._stop_now))

    async def _stop_now(self) -> None:
        """Run after the reply is sent; async, so that `stop` runs on the event loop's thread."""
        self.stop()


async def _body(request: Request, model: type[_Body]) -> _Body:
    try:
        return model.model_validate_json(await request.body() or b"{}")
    except ValidationError as error:
        problems = [
            field_problem(("body", *problem["loc"]), plain_message(problem), problem["type"])
            for problem in error.errors(include_url=False, include_input=False)
        ]
        raise UnprocessableRequest(problems) from None


def _reply(
    model: BaseModel, status: int = 200, background: BackgroundTask | None = None
) -> Response:
    content = model.model_dump(mode="json", by_alias=True)
    return JSONResponse(content, status, background=background)


def _descendants(pid: int) -> list[int]:
    """Return all descendants of a process; without /proc only Python's child processes."""
    if not Path("/proc/self/task").exists():
        return [child.pid for child in multiprocessing.active_children() if child.pid is not None]
    children: list[int] = []
    for task in Path(f"/proc/{pid}").glob("task/*/children"):
        with contextlib.suppress(OSError):  # the thread or process has just ended
            children += map(int, task.read_text().split())
    return [pid for child in children for pid in (child, *_descendants(child))]
