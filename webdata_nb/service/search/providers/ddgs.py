"""Searches public search pages with the engines of the `ddgs` library.

The library's engines build the requests and parse the pages; each engine is one provider. Requests
are sent by the service's own fetcher, through an adapter in place of the library's HTTP client, so
that egress policy, limits and deadlines apply. The library's further processing, which reorders
results and unquotes their URLs, is not used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from http.cookies import SimpleCookie
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from webdata_nb.contract.local import Access
from webdata_nb.pacing.host_pacing import RateLimitPolicy
from webdata_nb.service.foreign_services import RATE_LIMITED
from webdata_nb.service.runtime.work_threads import run_on_thread
from webdata_nb.service.search.providers.api import (
    ProviderProblem,
    ProviderReply,
    ProviderRequest,
    ResultPage,
    SearchApi,
    SearchQuery,
    SearchResult,
    plain_text,
    with_parameters,
)
from webdata_nb.service.search.providers.http_provider import (
    NO_RESULTS,
    REQUEST_TIMEOUT_S,
    HttpProvider,
    ProviderQueues,
)
from webdata_nb.service.web.fetch import Fetcher

log: Final = logging.getLogger(__name__)

# The engines of the library that are enabled, and the index that each one shows.
BACKENDS: Final = {
    "startpage": "google",
    "duckduckgo": "bing",
    "yahoo": "bing",
    "brave": "brave",
    "mojeek": "mojeek",
}
# These pages are made for people, so requests are few and one after the other.
_RATE_LIMIT: Final = RateLimitPolicy(max_concurrent=1, interval_s=1.0)
_MAX_PAGES: Final = 10
_CAPTCHA_SIGNS: Final = (b"captcha", b"anomaly-modal", b"unusual traffic", b"are you a robot")


class DdgsApi(SearchApi):
    """An `Api` by name and rate limit alone; its exchanges are the library's."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.name: str = f"ddgs.{backend}"
        self.url = ""
        self.rate_limit = _RATE_LIMIT

    def build_request(
        self, query: SearchQuery, number: int, access: Access
    ) -> ProviderRequest | None:
        """Return nothing: `DdgsProvider` uses the library instead."""
        _ = query, number, access
        return None

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Return nothing: `DdgsProvider` uses the library instead."""
        _ = query, number, reply
        return NO_RESULTS

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:
        """Recognize rate limits (403) and captchas."""
        if reply.status == HTTPStatus.FORBIDDEN:
            return ProviderProblem("rate_limited", RATE_LIMITED)
        if reply.status == HTTPStatus.OK and any(
            sign in reply.body.lower() for sign in _CAPTCHA_SIGNS
        ):
            return ProviderProblem("blocked", "it asks for a captcha")
        return None


class DdgsProvider:
    """A `SearchProvider` that uses one engine of the library."""

    def __init__(
        self,
        api: DdgsApi,
        access: Access,
        fetcher: Fetcher,
        queues: ProviderQueues,
        *,
        others: Iterable[Access] = (),
    ) -> None:
        self._api = api
        self._url = access.url
        self._http = HttpProvider(api, access, fetcher, queues, others=others)
        self.name: str = api.name
        self.identity: str = self._http.identity

    async def fetch_page(self, query: SearchQuery, number: int) -> ResultPage:
        """Request page `number` (from 1). Raises `ProviderProblem`."""
        if number > _MAX_PAGES:
            return NO_RESULTS
        client = _ClientAdapter(partial(self._http.send, echoes=(query.text,)), self._url)
        try:
            async with asyncio.timeout(4 * REQUEST_TIMEOUT_S):
                return await run_on_thread(
                    lambda: _search(self._api.backend, client, query, number)
                )
        except ProviderProblem:
            raise
        except TimeoutError:
            raise ProviderProblem("timeout", "no answer in time") from None
        except Exception as error:  # whatever the library meets on a page that it does not expect
            log.warning("%s: its page cannot be read", self.name, exc_info=True)
            message = f"its page cannot be read ({type(error).__name__})"
            raise ProviderProblem("error", message) from None
        finally:
            client.close()


class _ClientAdapter:
    """Replaces the library's HTTP client. It runs on a thread, `send` on the event loop."""

    def __init__(self, send: Callable[[ProviderRequest], Any], url: str | None) -> None:
        self._send, self._url = send, url
        self._loop = asyncio.get_running_loop()
        self._cookies: dict[str, str] = {}
        self._headers: dict[str, str] = {}
        self._futures: list[Any] = []
        self._is_closed = False
        self.client = self

    def headers_update(self, headers: Mapping[str, str]) -> None:
        """Store headers, as the library's client does."""
        self._headers.update(headers)

    def set_cookies(self, _url: str, cookies: Mapping[str, str]) -> None:
        """Store cookies, as the library's client does."""
        self._cookies.update(cookies)

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> SimpleNamespace:
        """Send a request on the event loop and wait for its reply."""
        if self._url is not None:  # its host replaces that of the library
            configured, original = urlsplit(self._url), urlsplit(url)
            url = urlunsplit(
                (configured.scheme, configured.netloc, original.path, original.query, "")
            )
        address = with_parameters(url, **(params or {}))
        headers = dict(self._headers)
        if self._cookies:
            cookies = SimpleCookie(self._cookies).items()
            headers["Cookie"] = "; ".join(f"{name}={morsel.value}" for name, morsel in cookies)
        body = None
        if data is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(data).encode()
        request = ProviderRequest(address, method, headers, body)
        future = asyncio.run_coroutine_threadsafe(self._send_unless_closed(request), self._loop)
        self._futures.append(future)
        reply: ProviderReply = future.result()
        return SimpleNamespace(status_code=reply.status, text=reply.body.decode("utf-8", "replace"))

    async def _send_unless_closed(self, request: ProviderRequest) -> ProviderReply:
        if self._is_closed:
            raise asyncio.CancelledError
        reply: ProviderReply = await self._send(request)
        return reply

    def close(self) -> None:
        """Cancel the requests in progress and those to come, so that the thread ends."""
        self._is_closed = True
        for future in self._futures:
            future.cancel()


def _search(backend: str, client: _ClientAdapter, query: SearchQuery, number: int) -> ResultPage:
    """Fetch and parse one page, on a thread because the library blocks."""
    from ddgs.engines import ENGINES  # noqa: PLC0415 - slow to import

    kind = ENGINES["text"][backend]
    engine: Any = object.__new__(kind)  # its constructor would open an HTTP client
    engine.http_client, engine.results = client, []
    client.headers_update(kind.headers_update)
    country = {"gb": "uk"}.get(query.country or "us", query.country or "us")
    payload = engine.build_payload(
        query=query.text,
        region=f"{country}-{query.language_code}",
        safesearch="on" if query.safe_search else "off",
        timelimit=None,
        page=number,
    )
    part = "params" if engine.search_method == "GET" else "data"
    page = client.request(engine.search_method, engine.search_url, **{part: payload})
    return ResultPage(_parse_results(engine, page.text))


def _parse_results(engine: Any, html: str) -> tuple[SearchResult, ...]:
    """Parse the rows of a page in their order, with unchanged links.

    The library's filter selects the results. It works on copies, which it may change.
    """
    if not html.strip():
        return ()
    tree = engine.extract_tree(engine.pre_process_html(html))
    raw: list[dict[str, str]] = []
    for item in tree.xpath(engine.items_xpath):
        texts = {name: item.xpath(path) for name, path in engine.elements_xpath.items()}
        # Texts are joined, but several links of one row would become one wrong URL.
        href = next((link for link in texts.pop("href") if link.strip()), "")
        raw.append({"href": href, **{name: "".join(parts) for name, parts in texts.items()}})
    copies = [SimpleNamespace(**row, row=number) for number, row in enumerate(raw)]
    selected = [raw[copy.row] for copy in engine.post_extract_results(copies)]
    return tuple(
        SearchResult(row["href"].strip(), plain_text(row["title"]), plain_text(row["body"]))
        for row in selected
        if row["href"].strip()
    )
