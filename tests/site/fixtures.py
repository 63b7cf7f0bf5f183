"""Fixtures over the sites, for every test: name this module in `pytest_plugins`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.requirements import find, require
from tests.site.nginx import NginxSite
from tests.site.server import Site
from tests.site.static import StaticSite
from webdata_nb.demo.server import SampleSite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Docs:
    """Documentation pages: where they are served, and the folder that they come from."""

    url: str
    root: Path


@pytest.fixture
def site() -> Iterator[Site]:
    """Give an empty site on loopback that records its requests."""
    with Site() as running:
        yield running


@pytest.fixture
def sample_site() -> Iterator[SampleSite]:
    """Give the sample web that ships with the package."""
    with SampleSite() as running:
        yield running


@pytest.fixture(scope="module")
def python_docs() -> Iterator[Docs]:
    """Give Debian's Python documentation, served by nginx where the machine has it.

    It lasts for a module and not for the session, whose last tests look for leftovers.
    """
    with _served("python-docs") as docs:
        yield docs


@pytest.fixture(scope="module")
def django_docs() -> Iterator[Docs]:
    """Give Debian's Django documentation, in which some links are broken."""
    with _served("django-docs") as docs:
        yield docs


@contextmanager
def _served(component: str) -> Iterator[Docs]:
    root = require(component)
    server = NginxSite(root) if find("nginx") else StaticSite(root)
    with server as running:
        yield Docs(running.url, root)
