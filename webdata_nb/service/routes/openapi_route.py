"""GET /openapi.json: what this service is asked, and answers."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from webdata_nb.contract import paths
from webdata_nb.service.routes.routing import JSON, OPEN, open_router

router = open_router("service")


@router.get(paths.OPENAPI, summary="This document", openapi_extra=OPEN)
async def get_document(request: Request) -> Response:
    """Read the OpenAPI document. It needs no key."""
    app = request.app
    if not hasattr(app.state, "document"):
        app.state.document = orjson.dumps(app.openapi())
    return Response(app.state.document, media_type=JSON)
