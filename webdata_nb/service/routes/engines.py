"""Lists the providers of each engine, and why some are unusable: GET /v1/engines."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.contract.replies import EngineList
from webdata_nb.page.errors import BadInput
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.routes.routing import StateDep, strict_router

router = strict_router("search")


@router.get(
    paths.ENGINES, summary="List the providers of each engine (ours)", response_model=EngineList
)
async def list_engines(request: Request, state: StateDep) -> Response:
    """List the providers of each engine in the order of requests."""
    session = state.sessions.context_of(request.headers.get(LEASE_HEADER))
    try:
        entries = state.engines.list_providers(session)
    except JobFailure as error:
        raise BadInput(str(error), loc=("settings", "engines")) from None
    return JSONResponse(EngineList(engines=entries).model_dump(mode="json"))
