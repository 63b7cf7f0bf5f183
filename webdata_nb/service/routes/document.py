"""GET /openapi.json: what this service is asked, and answers."""

from __future__ import annotations

from functools import cache

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from webdata_nb import __version__
from webdata_nb.contract import paths
from webdata_nb.contract.document import document


@cache
def _bytes() -> bytes:
    return orjson.dumps(document(__version__))


async def _show(_request: Request) -> Response:
    return Response(_bytes(), media_type="application/json")


ROUTES = [Route(paths.OPENAPI, _show, methods=["GET"])]
