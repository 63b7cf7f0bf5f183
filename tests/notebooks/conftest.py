"""A service whose crawls run on, for the hosts in which one is shown or ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebooks.kernel import Kernel, started
from tests.wire_service import KEY, JobScript, WireService, crawl_rows


@pytest.fixture(scope="module")
def running() -> Iterator[WireService]:
    with WireService() as running:
        yield running


@pytest.fixture(scope="module")
def kernel(running: WireService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with started(tmp_path_factory.mktemp("kernel")) as kernel:
        connect = f"s = webdata_nb.connect(base_url={running.url!r}, api_key={KEY!r})"
        assert kernel.run(connect).status == "ok"
        yield kernel


@pytest.fixture
def service(running: WireService) -> WireService:
    """Give the service, whose crawls have 3 rows of 10 and run on."""
    running.reset()
    running.crawl = JobScript(crawl_rows(3), total=10, running=True)
    return running
