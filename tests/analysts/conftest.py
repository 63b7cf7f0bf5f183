"""The analysts, the service that they share, and documentation that nothing was made with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analysts.analyst import Analyst, read
from tests.local_service import stop
from tests.requirements import require, require_module
from tests.site.plain_audit import PlainSite
from tests.site.static import StaticSite
from webdata_nb import settings
from webdata_nb.settings import Options


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the analysts a local service, which is stopped after the last one."""
    folder = tmp_path_factory.mktemp("home")
    yield folder
    stop(settings.current(Options(home=folder)))


@pytest.fixture
def analyst(home: Path, tmp_path: Path) -> Analyst:
    require_module("papermill")
    return Analyst(tmp_path, home, {"WEBDATA_CREATIVES_SOURCE": "sample"})


@pytest.fixture(scope="module")
def sqlite_docs() -> Iterator[StaticSite]:
    """Serve the documentation of SQLite, written by hand and by Tcl."""
    with StaticSite(require("sqlite-docs")) as site:
        yield site


@pytest.fixture(scope="module")
def truth(sqlite_docs: StaticSite) -> PlainSite:
    return read(sqlite_docs.url)
