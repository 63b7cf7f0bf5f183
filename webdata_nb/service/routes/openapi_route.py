"""Serves the OpenAPI document: GET /openapi.json."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from webdata_nb.contract import paths
from webdata_nb.service.routes.routing import JSON, NO_AUTHENTICATION, open_router

router = open_router("service")


@router.get(paths.OPENAPI, summary="Read the OpenAPI document", openapi_extra=NO_AUTHENTICATION)
async def get_document(request: Request) -> Response:
    """Read this document. It needs no key."""
    app = request.app
    if not hasattr(app.state, "document"):
        app.state.document = orjson.dumps(app.openapi())
    return Response(app.state.document, media_type=JSON)
