"""Answers requests that need no key: health checks, the OpenAPI document, and public files.

The files are those of Swagger UI at `/docs`, and the directory of the keys with which sites verify
the service's requests, as in draft-ietf-webbotauth-httpsig-protocol.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.paths import DOCS, DOCS_FILES, SIGNATURE_DIRECTORY
from webdata_nb.contract.replies import DaskHealth, Health
from webdata_nb.service.errors import DiskFull, StoreUnavailable
from webdata_nb.service.routes.routing import JSON, NO_AUTHENTICATION, StateDep, open_router
from webdata_nb.service.signing.message_signature import directory_body, directory_headers
from webdata_nb.service.store.job_context import StoreRetry
from webdata_nb.service.store.sql.store import Store

# The checks need no key, so a result is reused for this long.
FRESH_S: Final = 1.0
CHECK_TIMEOUT_S: Final = 5.0
# A ready service can write this much: several large pages.
PROBE_BYTES: Final = 256 * 1024
DISK_FULL: Final = "disk full"
UNAVAILABLE: Final = "database or disk unavailable"
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

log: Final = logging.getLogger(__name__)


class Readiness:
    """Checks that the store answers and that its disk is writable."""

    def __init__(
        self,
        store: Store,
        data_dir: Path,
        retry: StoreRetry,
        *,
        replica: str | None,
        dask: Callable[[], DaskHealth] | None = None,
    ) -> None:
        self._replica, self._dask = replica, dask
        self._store, self._data_dir, self._retry = store, data_dir, retry
        self._lock = asyncio.Lock()
        self._checked_at = -FRESH_S
        self._reason: str | None = None

    async def reason(self) -> str | None:
        """Return why the service is not ready, or None; checks at most once a second."""
        async with self._lock:
            if time.monotonic() - self._checked_at >= FRESH_S:
                self._reason = await self._check()
                self._checked_at = time.monotonic()
            return self._reason

    def details(self) -> dict[str, Any]:
        """Return the fields of a reply that do not depend on the checks."""
        replica = {} if self._replica is None else {"replica": self._replica}
        return replica if self._dask is None else {**replica, "dask": self._dask().model_dump()}

    async def _check(self) -> str | None:
        if (pending_error := self._retry.pending_error) is not None:  # logged by the retry
            return _reason_of(pending_error)
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                await self._store.active_jobs()
                await asyncio.to_thread(_write, self._data_dir)
        except (StoreUnavailable, OSError) as error:
            # The reason is logged once while it lasts.
            reason = _reason_of(error)
            if reason != self._reason:
                late = f"no answer within {CHECK_TIMEOUT_S:g} s"
                log.warning("not ready: %s", late if isinstance(error, TimeoutError) else error)
            return reason
        except Exception as error:
            log.exception("not ready")
            return _reason_of(error)
        return None


def _reason_of(error: Exception) -> str:
    full = isinstance(error, DiskFull) or getattr(error, "errno", None) in _FULL
    return DISK_FULL if full else UNAVAILABLE


def _write(directory: Path) -> None:
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(PROBE_BYTES))
        file.flush()


router: Final = open_router("service")


@router.get(
    paths.HEALTH,
    summary="Check that the process answers",
    response_model=Health,
    openapi_extra=NO_AUTHENTICATION,
)
async def get_health() -> Response:
    """Answer that the process serves requests."""
    return JSONResponse({"status": "ok"})


@router.get(
    paths.READY,
    summary="Check that the service can run jobs",
    response_model=Health,
    responses={503: {"model": Health, "description": "The store or its disk does not work."}},
    openapi_extra=NO_AUTHENTICATION,
)
async def get_readiness(request: Request) -> Response:
    """Answer whether jobs can be stored and read; checked at most once a second."""
    readiness: Readiness = request.app.state.readiness
    reason, details = await readiness.reason(), readiness.details()
    if reason is None:
        return JSONResponse({"status": "ok"} | details)
    return JSONResponse({"status": "unavailable", "reason": reason} | details, 503)


_FILES: Final = Path(__file__).with_name("swagger_ui")
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".png": "image/png"}
# The page loads nothing from other origins; Swagger UI uses inline styles.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


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


@router.get(paths.OPENAPI, summary="Read the OpenAPI document", openapi_extra=NO_AUTHENTICATION)
async def get_document(request: Request) -> Response:
    """Read this document. It needs no key."""
    app = request.app
    if not hasattr(app.state, "document"):
        app.state.document = orjson.dumps(app.openapi())
    return Response(app.state.document, media_type=JSON)


MEDIA_TYPE: Final = "application/http-message-signatures-directory+json"
# Shorter than the time for which a new key is published before it signs.
_CACHE: Final = "public, max-age=3600"


@router.get(SIGNATURE_DIRECTORY, include_in_schema=False)
async def get_signature_directory(state: StateDep) -> Response:
    """Return the public keys of a service that signs its requests. It needs no key."""
    signer = state.engines.egress.signer
    if signer is None:
        raise HTTPException(404, "this service does not sign its requests")
    keys, now = signer.key_set, time.time()
    body = directory_body(keys, now)
    headers = directory_headers(keys, body, now) | {
        "Cache-Control": _CACHE,
        "X-Content-Type-Options": "nosniff",
    }
    return Response(body, media_type=MEDIA_TYPE, headers=headers)
