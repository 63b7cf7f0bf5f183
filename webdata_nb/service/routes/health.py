"""Open to all, with a word on why the service is not ready and no detail."""

from __future__ import annotations

import asyncio
import errno
import logging
import tempfile
import time
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.replies import Health
from webdata_nb.service.errors import DiskFull
from webdata_nb.service.routes.routing import OPEN, open_router
from webdata_nb.service.store.interface import Store
from webdata_nb.service.store.retry import StoreRetry

# Anybody may ask: one look answers for a while.
FRESH_S: Final = 1.0
PATIENCE_S: Final = 5.0
# What a disk must still take for the service to be ready: several large pages.
PROBE_BYTES: Final = 256 * 1024
DISK_FULL: Final = "disk full"
UNAVAILABLE: Final = "database or disk unavailable"
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

log = logging.getLogger(__name__)


class Readiness:
    """Whether the store answers and its disk takes what is written."""

    def __init__(self, store: Store, data_dir: Path, retry: StoreRetry) -> None:
        self._store, self._data_dir, self._retry = store, data_dir, retry
        self._lock = asyncio.Lock()
        self._looked_at = -FRESH_S
        self._trouble: str | None = None

    async def trouble(self) -> str | None:
        """Look, at most once a second; return why the service is not ready, None where it is."""
        async with self._lock:
            if time.monotonic() - self._looked_at >= FRESH_S:
                self._trouble = await self._look()
                self._looked_at = time.monotonic()
            return self._trouble

    async def _look(self) -> str | None:
        if (trouble := self._retry.trouble) is not None:  # the log has it already
            return _reason(trouble)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._store.active_jobs()
                await asyncio.to_thread(_write, self._data_dir)
        except Exception as error:
            log.exception("not ready")
            return _reason(error)
        return None


def _reason(error: Exception) -> str:
    full = isinstance(error, DiskFull) or getattr(error, "errno", None) in _FULL
    return DISK_FULL if full else UNAVAILABLE


def _write(directory: Path) -> None:
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(PROBE_BYTES))
        file.flush()


router = open_router("service")


@router.get(paths.HEALTH, summary="The process answers", response_model=Health, openapi_extra=OPEN)
async def get_health() -> Response:
    """Answer that the process serves requests; it is only listening once it can."""
    return JSONResponse({"status": "ok"})


@router.get(
    paths.READY,
    summary="The service can do its work",
    response_model=Health,
    responses={503: {"model": Health, "description": "The store or its disk does not work."}},
    openapi_extra=OPEN,
)
async def get_readiness(request: Request) -> Response:
    """Answer whether jobs can be stored and read; looked at once a second at most."""
    readiness: Readiness = request.app.state.readiness
    if (reason := await readiness.trouble()) is None:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unavailable", "reason": reason}, 503)
