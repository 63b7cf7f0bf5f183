"""Open to all and empty of detail."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.replies import Health
from webdata_nb.service.routes.routing import OPEN, open_router
from webdata_nb.service.store.base import Store

# Anybody may ask: one look answers for a while.
FRESH_S: Final = 1.0
PATIENCE_S: Final = 5.0

log = logging.getLogger(__name__)


class Readiness:
    """Whether the store answers and its disk takes what is written."""

    def __init__(self, store: Store, data_dir: Path) -> None:
        self._store, self._data_dir = store, data_dir
        self._lock = asyncio.Lock()
        self._looked_at, self._ready = -FRESH_S, False

    async def now(self) -> bool:
        """Look, at most once a second."""
        async with self._lock:
            if time.monotonic() - self._looked_at >= FRESH_S:
                self._ready = await self._look()
                self._looked_at = time.monotonic()
            return self._ready

    async def _look(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._store.active_jobs()
                await asyncio.to_thread(_write, self._data_dir)
        except Exception:
            log.exception("not ready")
            return False
        return True


def _write(directory: Path) -> None:
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(b"ready")
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
    if await readiness.now():
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unavailable"}, 503)
