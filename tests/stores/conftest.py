"""The stores that the contract tests run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from webdata_nb.service.store.interface import Store
from webdata_nb.service.store.sqlite.store import SqliteStore


def _sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "jobs.sqlite")


# How to make an empty store; add the next one here.
STORES: Final[dict[str, Callable[[Path], Store]]] = {"sqlite": _sqlite}


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Open an empty store of each kind."""
    async with STORES[request.param](tmp_path) as opened:
        yield opened
