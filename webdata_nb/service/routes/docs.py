"""Serves Swagger UI at /docs from files of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from webdata_nb.contract.paths import DOCS, DOCS_FILES
from webdata_nb.service.routes.routing import open_router

_FILES: Final = Path(__file__).with_name("swagger_ui")
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".png": "image/png"}
# The page loads nothing from other origins; Swagger UI uses inline styles.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

router = open_router("service")


@router.get(DOCS, include_in_schema=False)
async def show_docs() -> Response:
    """Show the OpenAPI document. The page needs no key; trying an operation does."""
    return FileResponse(_FILES / "index.html", media_type="text/html", headers=_HEADERS)


@router.get(DOCS + "/{name}", include_in_schema=False)
async def get_docs_file(name: str) -> Response:
    """Return a file of the page."""
    if name not in DOCS_FILES:
        raise HTTPException(404)
    return FileResponse(_FILES / name, media_type=_TYPES[Path(name).suffix], headers=_HEADERS)
