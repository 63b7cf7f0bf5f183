"""GET /v1/engines: which providers each engine asks, and what the others lack."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from webdata_nb.contract import paths
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.contract.replies import EngineList
from webdata_nb.service.errors import BadInput, JobFailed
from webdata_nb.service.routes.starts import Desk


def routes(desk: Desk) -> list[Route]:
    """Return the route of the listing."""

    async def listing(request: Request) -> JSONResponse:
        session = desk.sessions.context_of(request.headers.get(LEASE_HEADER))
        try:
            entries = desk.engines(session)
        except JobFailed as error:
            raise BadInput(str(error), loc=("settings", "engines")) from None
        return JSONResponse(EngineList(engines=entries).model_dump(mode="json"))

    return [Route(paths.ENGINES, listing, methods=["GET"])]
