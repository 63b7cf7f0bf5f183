"""The rules on imports hold, and each of them can be broken.

The rules are in pyproject.toml under `tool.importlinter`. What import-linter cannot see, since it
knows a library only as a whole, is checked on the source here.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grimp
import pytest

from tests.preloaded import PreloadedInterpreter

CHECKOUT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = CHECKOUT / "webdata_nb"
RUN: Final = "from importlinter.cli import lint_imports_command; lint_imports_command()"
# It asks for the width at its import.
LINTER: Final = PreloadedInterpreter(
    "import os; os.environ |= {'COLUMNS': '200', 'NO_COLOR': '1'}\n"
    "import importlinter.cli, importlinter.configuration, importlinter.contracts.forbidden\n"
    "import importlinter.contracts.acyclic_siblings, importlinter.contracts.layers\n"
    "import importlinter.contracts.protected"
)

# Ways to the network in the standard library, apart from `socket` and `ssl`.
NETWORK: Final = frozenset(
    {
        "create_connection",
        "create_datagram_endpoint",
        "ftplib",
        "getaddrinfo",
        "http.client",
        "open_connection",
        "smtplib",
        "socketserver",
        "urllib.request",
        "xmlrpc",
    }
)
# Extras whose libraries the package imports, when they are there and asked for.
USED_EXTRAS: Final = ("browser", "dask", "documents", "plot", "polars", "postgres", "remote")
# Parts of a declared one: of ipywidgets (used in a kernel, where it runs already), of psycopg, of
# pydantic, and of pandas, whose extension arrays are arrays of numpy.
TRANSITIVE_PACKAGES: Final = frozenset({"IPython", "psycopg_pool", "pydantic_core", "numpy"})
# Who touches the environment: the settings, and those who hand it on to a process of ours.
ENVIRONMENT: Final = frozenset(
    {
        "settings.py",
        "toolkit/local.py",
        "service/runtime/process.py",
        "service/local_lifetime.py",
        "service/job_workers/claim_loop.py",
        "service/settings.py",
        "service/browser/chromium.py",
    }
)

# A file and a line to add to it, and the rule that this breaks.
VIOLATIONS: Final = {
    "toolkit/client/retry.py": ("import webdata_nb.service.errors", "imports go one way"),
    "toolkit/frames/frame.py": ("import webdata_nb.toolkit.session", "The toolkit: layers"),
    "utils.py": ("", "imports go one way"),
    "service/web/fetch.py": ("import webdata_nb.service.work.runner", "The service: layers"),
    "page/urls.py": ("import webdata_nb.page.content.tables", "The page: layers"),
    "page/content/tables.py": ("import asyncio", "A page needs no network"),
    "service/crawl/crawl_results.py": (
        "import webdata_nb.service.search.rank",
        "The service: layers",
    ),
    "service/helpers.py": ("", "The service: layers"),
    "service/http/middleware.py": (
        "import webdata_nb.errors",
        "The service does not import the toolkit",
    ),
    "toolkit/session.py": ("import webdata_nb.service.app", "Only the command starts the service"),
    "contract/limits.py": ("import pathlib", "Decisions are pure"),
    "service/crawl/plan.py": ("import time", "Decisions are pure"),
    "service/search/breaker.py": ("import time", "Decisions are pure"),
    "pacing/retry_policies.py": ("import random", "Decisions are pure"),
    "toolkit/client/paging.py": ("import pandas", "know DataFrames"),
    "toolkit/calls/partitions.py": ("import distributed", "know the Dask cluster"),
    "toolkit/frames/receipt.py": ("import dask", "Only lazy frames and the cluster know Dask"),
    "toolkit/frames/rows.py": ("import ipywidgets", "Only display knows bars and widgets"),
    "page/scrape/page.py": ("import aiohttp", "One way out"),
    "page/markdown.py": ("import turbohtml", "One file knows the parser"),
    "service/crawl/engine.py": ("import sqlite3", "Only the store knows its databases"),
    "service/work/runner.py": ("import distributed", "know the Dask cluster"),
    "service/routes/jobs.py": (
        "import webdata_nb.service.store.sqlite.database",
        "Only one module chooses the database",
    ),
    "contract/outcomes.py": ("import webdata_nb.contract.events", "No cycles"),
}


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """Check the rules over the package in `root`."""
    return LINTER.run(RUN, "--no-cache", "--no-logo", cwd=root)


@pytest.mark.gate
def test_every_rule_is_kept() -> None:
    done = lint(CHECKOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    rules = (CHECKOUT / "pyproject.toml").read_text().count("[[tool.importlinter.contracts]]")
    assert done.stdout.count(" KEPT") == rules


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the package and its rules."""
    root = tmp_path_factory.mktemp("package")
    shutil.copy(CHECKOUT / "pyproject.toml", root)
    shutil.copytree(PACKAGE, root / "webdata_nb", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_broken_rule_is_noticed(copied: Path, name: str) -> None:
    line, rule = VIOLATIONS[name]
    file = copied / "webdata_nb" / name
    before = file.read_text() if file.exists() else None
    file.write_text(f"{before or ''}\n{line}\n")
    try:
        done = lint(copied)
    finally:
        file.unlink() if before is None else file.write_text(before)
    assert done.returncode != 0
    broken = [text for text in done.stdout.splitlines() if " BROKEN" in text]
    # import-linter stops at once where a module has no layer.
    assert any(rule in text for text in broken) or (not line and Path(name).stem in done.stdout)


@pytest.fixture(scope="module")
def at_run_time() -> grimp.ImportGraph:
    """Give who imports whom, without what is imported for annotations alone."""
    return grimp.build_graph(
        "webdata_nb",
        include_external_packages=True,
        exclude_type_checking_imports=True,
        cache_dir=None,
    )


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_what_is_imported_for_annotations_stays_at_that(
    at_run_time: grimp.ImportGraph, library: str
) -> None:
    importers = at_run_time.find_modules_that_directly_import(library)
    assert importers
    owners = (
        "webdata_nb.toolkit.frames.",
        "webdata_nb.toolkit.sites.",
        "webdata_nb.toolkit.cache.",
        "webdata_nb.toolkit.recording",
        "webdata_nb.service.segments.parquet_file",
    )
    assert {name for name in importers if not name.startswith(owners)} == set()


# `compression` comes with Python 3.14; older versions have its backport.
STANDARD_LIBRARY: Final = sys.stdlib_module_names | {"compression"}


def test_every_library_is_a_declared_dependency(at_run_time: grimp.ImportGraph) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = [text for name in USED_EXTRAS for text in project["optional-dependencies"][name]]
    declared = {
        normal(re.split(r"[^\w.-]", text)[0]) for text in (*project["dependencies"], *extras)
    }
    owners = importlib.metadata.packages_distributions()
    libraries = {
        name
        for name in at_run_time.modules
        if at_run_time.is_module_squashed(name) and name not in STANDARD_LIBRARY
    }
    assert libraries
    undeclared = {name for name in libraries if not declared & {*map(normal, owners[name])}}
    assert undeclared - TRANSITIVE_PACKAGES == set()


def normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sources() -> Iterator[tuple[str, ast.AST]]:
    """Give every node of every module of the package, with the module's path in it."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            yield file.relative_to(PACKAGE).as_posix(), node


def names(node: ast.AST) -> Iterator[str]:
    """Give the dotted names that a node imports, or the attribute that it asks for."""
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
        yield from (f"{node.module}.{each.name}" for each in node.names)
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.Attribute):
        yield node.attr


@pytest.fixture(scope="module")
def uses() -> set[tuple[str, str]]:
    """Give each module of the package with each name of `names` in it."""
    return {(file, name) for file, node in sources() for name in names(node)}


@pytest.mark.slow
def test_in_the_service_only_web_opens_connections(uses: set[tuple[str, str]]) -> None:
    found = {file for file, name in uses if name in NETWORK and file.startswith("service/")}
    assert found
    assert {file for file in found if not file.startswith("service/web/")} == set()


@pytest.mark.slow
def test_the_environment_is_read_in_one_place(uses: set[tuple[str, str]]) -> None:
    readers = {file for file, name in uses if name in {"environ", "getenv", "environb"}}
    assert readers <= ENVIRONMENT
    assert "settings.py" in readers
