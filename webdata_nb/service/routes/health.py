"""Open to all and empty of detail."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from webdata_nb.contract import paths


async def healthy(_request: Request) -> JSONResponse:
    """Answer that the process serves requests; it is only listening once it can."""
    return JSONResponse({"status": "ok"})


ROUTES = [Route(paths.HEALTH, healthy), Route(paths.READY, healthy)]
