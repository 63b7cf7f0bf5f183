"""The fake service, running, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.client.fake import KEY, Service
from webdata_nb.toolkit.client.client import Client


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "quirks(*names): what the fake service does differently")


@pytest.fixture
async def service(request: pytest.FixtureRequest) -> AsyncIterator[Service]:
    """Run a service with the quirks of the test's `quirks` marker, if it has one."""
    marker = request.node.get_closest_marker("quirks")
    async with Service(*(marker.args if marker else ())).running() as service:
        yield service


@pytest.fixture
async def client(service: Service) -> AsyncIterator[Client]:
    async with Client(service.base_url, KEY, timeout_s=10) as client:
        yield client
