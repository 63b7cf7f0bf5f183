"""What every test gets: the sites, a home of its own, and a check for leftovers."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.leftovers import MARK, Baseline, baseline, leftovers

pytest_plugins = ["tests.site.fixtures"]

_KEPT: Final = frozenset({"WEBDATA_CORPORA"})
_BASELINE: Final = pytest.StashKey[Baseline]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the machine's settings out, and everything that the tests make in one place.

    Runs in the controller and in each worker of a parallel run: every worker has its own home.
    """
    # A shell starts background commands with SIGINT ignored; the tests of Ctrl-C need Python's own.
    signal.signal(signal.SIGINT, signal.default_int_handler)
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
    config.stash[_BASELINE] = baseline(scratch, home)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what is left of the session's temporary files."""
    if (before := config.stash.get(_BASELINE, None)) is not None:
        shutil.rmtree(before.scratch, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail after the last test when something that the tests started still exists."""
    yield
    if found := leftovers(pytestconfig.stash[_BASELINE]):
        pytest.fail("\n".join(("the tests left behind:", *found)), pytrace=False)
