"""Public search pages, read with the engines of the `ddgs` library (extra `search`).

Its engines know how such a page is asked for and where its results stand; they are used one by
one. Sending is ours: a stand-in for the library's HTTP client goes through the service's one way
out, so that policy, limits and deadlines hold here too. What the library does to results after
that is left out: it orders them anew and unquotes their URLs.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Mapping
from functools import cache
from http import HTTPStatus
from http.cookies import SimpleCookie
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from webdata_nb.contract.local import Access
from webdata_nb.pacing.rate_limit import RateLimitPolicy
from webdata_nb.service.search.providers.api import (
    ApiReply,
    ApiRequest,
    SearchApiDefaults,
    plain_text,
    with_parameters,
)
from webdata_nb.service.search.providers.base import (
    ProviderProblem,
    ResultPage,
    SearchQuery,
    SearchResult,
)
from webdata_nb.service.search.providers.endpoint import (
    NO_RESULTS,
    REQUEST_TIMEOUT_S,
    HttpProvider,
    ProviderQueues,
)
from webdata_nb.service.web.fetch import Fetcher

# Each engine of the library that this release has switched on, and whose index it shows.
BACKENDS: Final = {
    "startpage": "google",
    "duckduckgo": "bing",
    "yahoo": "bing",
    "brave": "brave",
    "mojeek": "mojeek",
}
# These pages are made for people: a few requests, one after the other.
_RATE_LIMIT: Final = RateLimitPolicy(max_concurrent=1, interval_s=1.0)
_MAX_PAGES: Final = 10
_CAPTCHA_SIGNS: Final = (b"captcha", b"anomaly-modal", b"unusual traffic", b"are you a robot")


@cache
def is_installed() -> bool:
    """Whether the extra is there."""
    return importlib.util.find_spec("ddgs") is not None


class DdgsApi(SearchApiDefaults):
    """An `Api` by name and rate limit alone; its exchanges are the library's."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.name = f"ddgs.{backend}"
        self.url = ""
        self.rate_limit = _RATE_LIMIT

    def exchange(self, query: SearchQuery, number: int, access: Access) -> ApiRequest | None:
        """Return nothing: see `DdgsProvider.page`."""
        _ = query, number, access
        return None

    def page(self, query: SearchQuery, number: int, reply: ApiReply) -> ResultPage:
        """Return nothing: see `DdgsProvider.page`."""
        _ = query, number, reply
        return NO_RESULTS

    def problem(self, reply: ApiReply) -> ProviderProblem | None:
        """See `Api.problem`: 202 is how a page for people says "too many"."""
        if reply.status == HTTPStatus.FORBIDDEN:
            return ProviderProblem("rate_limited", "HTTP 403: it takes us for too busy a visitor")
        if reply.status == HTTPStatus.OK and any(
            sign in reply.body.lower() for sign in _CAPTCHA_SIGNS
        ):
            return ProviderProblem("blocked", "it asks for a captcha")
        return None


class DdgsProvider:
    """A `Provider` over one engine of the library."""

    def __init__(
        self, api: DdgsApi, access: Access, fetcher: Fetcher, lines: ProviderQueues
    ) -> None:
        self._api = api
        self._url = access.url
        self._endpoint = HttpProvider(api, access, fetcher, lines)
        self.name, self.identity = api.name, self._endpoint.identity

    async def page(self, query: SearchQuery, number: int) -> ResultPage:
        """See `Provider.page`."""
        if number > _MAX_PAGES:
            return NO_RESULTS
        client = _ClientAdapter(self._endpoint.send, self._url)
        try:
            async with asyncio.timeout(4 * REQUEST_TIMEOUT_S):
                return await asyncio.to_thread(_search, self._api.backend, client, query, number)
        except TimeoutError:
            raise ProviderProblem("timeout", "no answer in time") from None
        finally:
            client.close()


class _ClientAdapter:
    """Stands in for the library's HTTP client, on a thread of its own; `send` is on the loop."""

    def __init__(self, send: Callable[[ApiRequest], Any], url: str | None) -> None:
        self._send, self._url = send, url
        self._loop = asyncio.get_running_loop()
        self._cookies: dict[str, str] = {}
        self._headers: dict[str, str] = {}
        self._sent: list[Any] = []
        self.client = self

    def headers_update(self, headers: Mapping[str, str]) -> None:
        """Remember headers, as the library's client does."""
        self._headers.update(headers)

    def set_cookies(self, _url: str, cookies: Mapping[str, str]) -> None:
        """Remember cookies, as the library's client does."""
        self._cookies.update(cookies)

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> SimpleNamespace:
        """Send a request on the loop and wait for its answer."""
        address = with_parameters(self._elsewhere(url), **(params or {}))
        headers = {**self._headers, **self._cookie_header()}
        body = None
        if data is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(data).encode()
        future = asyncio.run_coroutine_threadsafe(
            self._send(ApiRequest(address, method, headers, body)), self._loop
        )
        self._sent.append(future)
        reply: ApiReply = future.result()
        return SimpleNamespace(status_code=reply.status, text=reply.body.decode("utf-8", "replace"))

    def close(self) -> None:
        """Give up what is still on its way, so that the thread ends."""
        for future in self._sent:
            future.cancel()

    def _elsewhere(self, url: str) -> str:
        """Put the address that the settings name in place of the site's own."""
        if self._url is None:
            return url
        there, asked = urlsplit(self._url), urlsplit(url)
        return urlunsplit((there.scheme, there.netloc, asked.path, asked.query, ""))

    def _cookie_header(self) -> dict[str, str]:
        if not self._cookies:
            return {}
        jar = SimpleCookie(self._cookies)
        return {"Cookie": "; ".join(f"{name}={morsel.value}" for name, morsel in jar.items())}


def _search(backend: str, client: _ClientAdapter, query: SearchQuery, number: int) -> ResultPage:
    """Ask and read one page; on a thread, since the library waits where it stands."""
    from ddgs.engines import ENGINES  # noqa: PLC0415 - an extra, and slow to import

    kind = ENGINES["text"][backend]
    engine: Any = object.__new__(kind)  # its constructor would open a client of its own
    engine.http_client, engine.results = client, []
    client.headers_update(kind.headers_update)
    country = {"gb": "uk"}.get(query.country or "us", query.country or "us")
    payload = engine.build_payload(
        query=query.text,
        region=f"{country}-{query.tongue}",
        safesearch="on" if query.safe_search else "off",
        timelimit=None,
        page=number,
    )
    part = "params" if engine.search_method == "GET" else "data"
    page = client.request(engine.search_method, engine.search_url, **{part: payload})
    return ResultPage(_organic(engine, page.text))


def _organic(engine: Any, html: str) -> tuple[SearchResult, ...]:
    """Read the rows in the page's order with their links as written.

    The library's own filter decides which of them are results, on copies that it may change.
    """
    if not html.strip():
        return ()
    tree = engine.extract_tree(engine.pre_process_html(html))
    raw = [_row(engine, item) for item in tree.xpath(engine.items_xpath)]
    copies = [SimpleNamespace(**row, row=number) for number, row in enumerate(raw)]
    kept = [raw[copy.row] for copy in engine.post_extract_results(copies)]
    return tuple(
        SearchResult(row["href"].strip(), plain_text(row["title"]), plain_text(row["body"]))
        for row in kept
        if row["href"].strip()
    )


def _row(engine: Any, item: Any) -> dict[str, str]:
    found = {name: item.xpath(path) for name, path in engine.elements_xpath.items()}
    # Two links of one row would become one wrong address, as texts are joined.
    href = next((link for link in found.pop("href") if link.strip()), "")
    return {"href": href, **{name: "".join(texts) for name, texts in found.items()}}
