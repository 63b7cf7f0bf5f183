"""Selects the short or the full run, isolates each session, and checks for leftovers.

A run of the whole suite leaves out tests marked `slow` and not `smoke`, unless it has the option
`--all` or the environment has `CI=true`. A run of named files or folders leaves nothing out.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import certifi
import pytest
from hypothesis import HealthCheck, settings

from tests import preloaded
from tests.leaked_resources import MARK, Baseline, baseline, leftovers
from tests.requirements import in_ci
from webdata_nb.toolkit import local
from webdata_nb.toolkit import session as connections

pytest_plugins = ["tests.site.fixtures", "tests.postgres"]

_PRESERVED_VARIABLES: Final = frozenset({"WEBDATA_CORPORA"})
_BASELINE: Final = pytest.StashKey[Baseline]()
_OMITTED_TESTS: Final = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select the full run, and the store of the service's tests."""
    parser.addoption("--all", action="store_true", help="run slow tests too, as CI=true does")
    parser.addoption(
        "--store",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="the store of tests/service; with sqlite, tests marked both_stores run on both",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give this process its own settings and its own folder for all temporary files.

    The controller and each worker of a parallel run call this, so every worker has its own home.
    """
    # Collection creates half a million objects and no garbage.
    gc.disable()
    # jsonschema imports it for the formats `iri` and `iri-reference`, which no test checks; it
    # compiles 38 grammars, which takes two seconds of each process.
    sys.modules["rfc3987_syntax"] = ModuleType("rfc3987_syntax")
    # A shell starts background commands with SIGINT ignored; the tests of Ctrl-C need Python's own.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "gate: checks the source itself: style, types, layers")
    config.addinivalue_line("markers", "slow: left out of the short run")
    config.addinivalue_line(
        "markers", "smoke: one of its kind in a slow file, kept in the short run"
    )
    config.addinivalue_line("markers", "both_stores: runs on SQLite and, if slow, on PostgreSQL")
    config.addinivalue_line("markers", "sqlite(reason): skipped with --store postgres")
    config.stash[_OMITTED_TESTS] = 0
    # A loaded machine must not fail a test, and CI must not depend on random examples.
    settings.register_profile(
        "gate",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=in_ci(),
    )
    settings.load_profile("gate")
    # pytest keeps the folders of failed tests in the system's temporary folder.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    scratch = Path(tempfile.mkdtemp(prefix="webdata-tests-"))
    home = scratch / "home"
    for name in [name for name in os.environ if name.startswith("WEBDATA_")]:
        if name not in _PRESERVED_VARIABLES:
            del os.environ[name]
    tempfile.tempdir = str(scratch)
    # Processes that tests start would compile the package again and again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # IPython warns of an active environment that is not its own.
    os.environ.pop("VIRTUAL_ENV", None)
    # No test calls a search provider that it did not start itself.
    os.environ |= {
        f"WEBDATA_{name}": "local" for name in ("ENGINE_ONE", "ENGINE_TWO", "ENGINE_THREE")
    }
    # A client reads all certificates of the system, which takes 20 ms; no test needs any of them.
    certificate = scratch / "one certificate.pem"
    first, end, _others = Path(certifi.where()).read_text("ascii").partition(ssl.PEM_FOOTER)
    certificate.write_text(first + end)
    os.environ |= {
        "TMPDIR": str(scratch),
        "WEBDATA_HOME": str(home),
        "SSL_CERT_FILE": str(certificate),
        MARK: uuid.uuid4().hex,
    }
    config.stash[_BASELINE] = baseline(scratch, home)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return the number of workers for `-n logical`: tests wait for processes half of their time.

    The environment variable `PYTEST_XDIST_AUTO_NUM_WORKERS` sets another number.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return 2 * (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests in a short run, and start with the files that take longest."""
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    if is_short_run(config):
        omitted = [item for item in items if is_slow(item)]
        items[:] = [item for item in items if not is_slow(item)]
        config.stash[_OMITTED_TESTS] = len(omitted)
        config.hook.pytest_deselected(items=omitted)
    # Parallel workers take whole files in this order; a long file at the end would idle the others.
    timeouts: dict[Path, float] = {}
    for item in items:
        if (marker := item.get_closest_marker("timeout")) is not None:
            timeouts[item.path] = max(timeouts.get(item.path, 0), marker.args[0])
    items.sort(key=lambda item: (-timeouts.get(item.path, 0), item.path not in slow_files))


def pytest_collection_finish() -> None:
    """Exempt what the collection created from garbage collection, which shortens each one."""
    gc.collect()
    gc.freeze()
    gc.enable()


def is_slow(item: pytest.Item) -> bool:
    """Return whether a short run leaves out a test."""
    return bool(item.get_closest_marker("slow")) and not item.get_closest_marker("smoke")


def is_short_run(config: pytest.Config) -> bool:
    """Return whether this run leaves out slow tests."""
    whole_suite = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return whole_suite and not (config.option.all or config.option.markexpr or in_ci())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the number of omitted tests to the controller of a parallel run."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["omitted_tests"] = session.config.stash[_OMITTED_TESTS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the number of omitted tests from a worker; all workers collect the same tests."""
    if (output := getattr(node, "workeroutput", None)) is not None:
        node.config.stash[_OMITTED_TESTS] = output["omitted_tests"]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say what a short run left out, and remove the session's temporary files."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and (omitted := config.stash.get(_OMITTED_TESTS, 0)):
        reporter.write_line(
            f"Left out {omitted} slow tests (more kills, browsers, notebooks and services, long "
            "crawls, type checkers); to run all: .venv/bin/python -m pytest -n logical --all"
        )
    if (before := config.stash.get(_BASELINE, None)) is not None:
        shutil.rmtree(before.scratch, ignore_errors=True)


@pytest.fixture(autouse=True)
def default_session() -> Iterator[None]:
    """Restore the default session, which `connect()` replaces for the whole process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections._DEFAULT, "connection", None)
        yield


@pytest.fixture(scope="module", autouse=True)
def resources_are_closed() -> Iterator[None]:
    """Let a socket, file or coroutine that a module's tests leave open fail in that module.

    Its warning, an error here, comes when it is collected as garbage, so without this collection
    it would fail an arbitrary later test.
    """
    yield
    gc.collect()
    gc.freeze()  # what is left, mostly imported modules, is not visited again after each module


@pytest.fixture(scope="session", autouse=True)
def forked_services() -> Iterator[None]:
    """Fork the local services that this process starts; `started_services` starts them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "subprocess", preloaded.FORKING_SUBPROCESS)
        yield


@pytest.fixture
def started_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the interpreters of local services, as outside of tests."""
    monkeypatch.setattr(local, "subprocess", subprocess)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail after the last test when something that the tests started still exists."""
    yield
    preloaded.PreloadedInterpreter.close_all()
    if found := leftovers(pytestconfig.stash[_BASELINE]):
        pytest.fail("\n".join(("the tests left behind:", *found)), pytrace=False)
