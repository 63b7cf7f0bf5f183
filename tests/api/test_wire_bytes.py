"""What a crawl's rows cost on the wire: each page of rows is asked for once, and little else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.local_service import stop
from tests.site.document import document
from tests.site.server import Site
from webdata_nb import settings
from webdata_nb.toolkit.api import crawl_df
from webdata_nb.toolkit.jobs import sources

PAGES = 330
RUN = re.compile(r"/v1/crawl/[0-9a-f-]{36}")


class CountingStream(httpx.AsyncByteStream):
    """A body that is counted as it comes from the connection, still in its coding."""

    def __init__(self, body: httpx.AsyncByteStream, tally: Counter[str], kind: str) -> None:
        self._body, self._tally, self._kind = body, tally, kind

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            self._tally[self._kind] += len(piece)
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class Wire:
    """Every answer that httpx got: its bytes by kind, and the pages of rows that were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes: Counter[str] = Counter()
        self.pages: Counter[str] = Counter()
        send = httpx.AsyncHTTPTransport.handle_async_request

        async def counted(
            transport: httpx.AsyncHTTPTransport, request: httpx.Request
        ) -> httpx.Response:
            response = await send(transport, request)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = CountingStream(response.stream, self.bytes, self._kind(request))
            return response

        monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", counted)

    def _kind(self, request: httpx.Request) -> str:
        params = request.url.params
        is_status = RUN.fullmatch(request.url.path) is not None
        if not is_status or params.get("include_data") == "false":
            return "receipt" if request.url.path.endswith("/receipt") else "else"
        self.pages[params["page"]] += 1
        return "rows"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    yield
    stop(settings.current())


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_each_row_is_transferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Site(latency=0.02) as site:
        for n in range(PAGES):
            links = [f"/{each}" for each in range(4 * n + 1, min(4 * n + 5, PAGES))]
            site.page(f"/{n}", document(f"Page {n}", links=links))
        wire = Wire(monkeypatch)
        pages = crawl_df(site.at("/0"), max_pages=1000, concurrency=10, progress=False)
    assert len(pages) == PAGES
    full, rest = divmod(PAGES, sources.ROWS)
    assert rest
    assert wire.pages == {str(n): 1 for n in range(1, full + 2)}
    # What the rows are made of, in the form in which they are sent.
    size = len(pages.to_json(orient="records", date_format="iso"))
    assert 0.5 * size < wire.bytes["rows"] < 1.5 * size
    assert wire.bytes["else"] < size / 4, wire.bytes
