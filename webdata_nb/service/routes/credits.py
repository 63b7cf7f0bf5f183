"""GET /v1/data-api-weights/public."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from webdata_nb.contract import paths
from webdata_nb.service.credits.weights import CATALOG


async def weights(_request: Request) -> JSONResponse:
    """Answer the catalog."""
    return JSONResponse([weight.model_dump() for weight in CATALOG])


ROUTES = [Route(paths.WEIGHTS, weights, methods=["GET"])]
