"""What every test gets: the sites, a home of its own, and a record of what was there before it."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest
from hypothesis import HealthCheck, settings

# A machine under load is no failure: no test of ours is about time.

pytest_plugins = ["tests.site.fixtures"]

# In the environment of every process that a test starts, also of one that lost its parent.
MARK: Final = "PYTEST_RUN_OF_WEBDATA"
_KEPT: Final = frozenset({"WEBDATA_CORPORA"})
_LAST: Final = "test_zz_resources"


@dataclass(frozen=True, slots=True)
class Before:
    """What there was when the session began, and where its temporary files go."""

    scratch: Path
    home: Path
    threads: frozenset[int | None]
    children: frozenset[int]


_BEFORE: Final = pytest.StashKey[Before]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the machine's settings out, and everything that the tests make in one place."""
    config.addinivalue_line("markers", "gate: checks the source itself: style, types, layers")
    # A busy machine is no finding; and what a gate decides must not be a matter of chance.
    settings.register_profile(
        "gate",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=os.environ.get("CI") == "true",
    )
    settings.load_profile("gate")
    # pytest keeps the folders of failed tests for a look at them, where it always does.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    scratch = Path(tempfile.mkdtemp(prefix="webdata-tests-"))
    home = scratch / "home"
    for name in [name for name in os.environ if name.startswith("WEBDATA_")]:
        if name not in _KEPT:
            del os.environ[name]
    tempfile.tempdir = str(scratch)
    # No test asks a search provider that it did not start itself.
    os.environ |= {
        f"WEBDATA_{name}": "local" for name in ("ENGINE_ONE", "ENGINE_TWO", "ENGINE_THREE")
    }
    os.environ |= {"TMPDIR": str(scratch), "WEBDATA_HOME": str(home), MARK: uuid.uuid4().hex}
    config.stash[_BEFORE] = Before(
        scratch,
        home,
        frozenset(thread.ident for thread in threading.enumerate()),
        frozenset(child.pid for child in psutil.Process().children(recursive=True)),
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what is left of the session's temporary files."""
    if (before := config.stash.get(_BEFORE, None)) is not None:
        shutil.rmtree(before.scratch, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the search for leftovers come last, whatever the names of the other folders."""
    items.sort(key=lambda item: item.path.stem == _LAST)


@pytest.fixture(scope="session")
def before(pytestconfig: pytest.Config) -> Before:
    """Give what there was when the session began."""
    return pytestconfig.stash[_BEFORE]
