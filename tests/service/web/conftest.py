from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.requirements import require
from tests.service.web.wire import WireServer
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher


@pytest.fixture(scope="session")
def corpora() -> Path:
    return require("corpora")


@pytest.fixture
async def server() -> AsyncIterator[WireServer]:
    async with WireServer() as running:
        yield running


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(EgressPolicy("local"), user_agent="webdata-tests/1.0") as opened:
        yield opened
