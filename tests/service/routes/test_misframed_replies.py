"""Sites whose replies break HTTP: each page is a row with its reason, and every crawl ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.service.conftest import Api
from tests.service.web.wire import WireServer

pytestmark = pytest.mark.both_stores

LINKS = "".join(f"<a href=/{n}>Page {n}</a>" for n in range(12)).encode()


@pytest.fixture
async def wire() -> AsyncIterator[WireServer]:
    async with WireServer() as server:
        server.page("/", b"<title>Front</title>" + LINKS, "Content-Type: text/html")
        yield server


@pytest.mark.parametrize(
    ("status", "message"),
    [("304 Not Modified", "without the page"), ("206 Partial Content", "for the whole page")],
)
@pytest.mark.parametrize("body", [b"", b"<title>Part</title>" * 1000])
async def test_a_reply_that_nobody_asked_for_is_a_failed_row(
    api: Api, wire: WireServer, status: str, message: str, body: bytes
) -> None:
    for number in range(12):
        wire.page(f"/{number}", body, "Content-Type: text/html", status=status)
    crawls = [api.run_job("crawl", url=wire.url(), max_pages=20) for _ in range(4)]
    for reply in await asyncio.gather(*crawls):
        assert reply["status"] == "completed"
        rows = {row["url"]: row for row in reply["data"]}
        assert rows[wire.url()]["success"]
        failed = [rows[wire.url(f"/{number}")] for number in range(12)]
        assert not any(row["success"] for row in failed)
        assert all(message in row["error"] for row in failed)
        assert {row["status_code"] for row in failed} == {int(status[:3])}
        assert reply["receipt"]["counts"] == {"fetched": 1, "failed:protocol": 12}
