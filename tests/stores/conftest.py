"""The stores and text indexes that the contract tests run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from webdata_nb.service.store.interface import Store, TextIndex
from webdata_nb.service.store.sqlite.store import SqliteStore
from webdata_nb.service.store.sqlite.text_index import SqliteTextIndex


def _sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "jobs.sqlite")


def _sqlite_index(folder: Path) -> TextIndex:
    return SqliteTextIndex(folder / "index.sqlite")


# What makes an empty store or index in a folder; add the next ones here.
STORES: Final[dict[str, Callable[[Path], Store]]] = {"sqlite": _sqlite}
INDEXES: Final[dict[str, Callable[[Path], TextIndex]]] = {"sqlite": _sqlite_index}


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Open an empty store of each kind."""
    async with STORES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture(params=INDEXES)
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TextIndex]:
    """Open an empty text index of each kind."""
    async with INDEXES[request.param](tmp_path) as opened:
        yield opened
