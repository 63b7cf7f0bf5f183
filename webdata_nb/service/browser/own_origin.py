"""Serves requests to a page's own origin through the service's fetcher.

The document was fetched before the browser opens it, and is not requested again. A job's headers
and cookies never enter the browser, so no redirect, frame or script can send them elsewhere: the
fetcher sends the requests that may contain them, hop by hop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import host_and_port, url_origin
from webdata_nb.service.web.fetch import FetchedResponse, Fetcher, FetchRequest

if TYPE_CHECKING:
    from playwright.async_api import Page, Request, Route

    from webdata_nb.service.web.forward_proxy import ProxySession

_DROPPED_RESPONSE_HEADERS: Final = frozenset(
    {
        *("connection", "content-disposition", "content-encoding", "content-length"),
        *("keep-alive", "proxy-authenticate", "proxy-connection", "trailer"),
        *("transfer-encoding", "upgrade"),
    }
)
_DROPPED_REQUEST_HEADERS: Final = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "cookie", "host", "keep-alive"),
        *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding"),
        *("upgrade", "expect"),
    }
)


class OwnOriginRouter:
    """Intercepts the requests of one page to its own origin.

    Parameters
    ----------
    document : Fetched
        The page's document.
    fetcher : Fetcher
        Sends the requests with the job's headers and cookies.
    headers, cookies : mapping of str to str
        Those of the job.
    proxy_session : ProxySession
        Accounts for the traffic of the fetcher too.
    """

    def __init__(
        self,
        document: FetchedResponse,
        fetcher: Fetcher,
        *,
        headers: Mapping[str, str],
        cookies: Mapping[str, str],
        proxy_session: ProxySession,
    ) -> None:
        self._document = document
        self._fetcher = fetcher
        self._headers, self._cookies = headers, cookies
        self._proxy_session = proxy_session
        self._origin = url_origin(document.final_url)
        # As in the fetcher, a redirect to another origin removes the job's headers for good.
        visited_origins = {url_origin(hop.url) for hop in document.redirects}
        self._has_credentials = bool(headers or cookies) and visited_origins <= {self._origin}
        self._served = False

    async def attach(self, page: Page) -> None:
        """Start to intercept the page's requests."""
        if self._has_credentials:
            own_urls = re.compile(f"^{re.escape(self._origin)}/", re.IGNORECASE)
            await page.context.route(own_urls, self._handle)
        else:
            exactly = re.compile(f"^{re.escape(self._document.final_url)}(#.*)?$")
            await page.route(exactly, self._handle, times=1)

    async def _handle(self, route: Route, request: Request) -> None:
        if not self._served and request.is_navigation_request():
            self._served = True
            await _fulfill(route, self._document)
        elif self._has_credentials and self._is_sent_by_page(request):
            await self._send(route, request)
        else:
            await route.continue_()

    def _is_sent_by_page(self, request: Request) -> bool:
        """Return whether the page itself sends a request, and not a frame of another origin."""
        frame = request.frame
        sender = frame
        if request.is_navigation_request() and frame.parent_frame is not None:
            sender = frame.parent_frame
        try:
            return url_origin(sender.url) == self._origin
        except FetchError:
            return False

    async def _send(self, route: Route, request: Request) -> None:
        """Send a request through the fetcher, with the job's headers and the browser's cookies."""
        browser_headers = {
            k: v for k, v in request.headers.items() if k.lower() not in _DROPPED_REQUEST_HEADERS
        }
        job_names = {name.lower() for name in self._headers}
        headers = {k: v for k, v in browser_headers.items() if k.lower() not in job_names} | dict(
            self._headers
        )
        jar = await request.frame.page.context.cookies(request.url)
        cookies = {cookie["name"]: cookie["value"] for cookie in jar if _has_name_and_value(cookie)}
        try:
            if self._proxy_session.subresource_throttle is not None:
                await self._proxy_session.subresource_throttle.wait(host_and_port(request.url))
            fetched = await self._fetcher.fetch(
                FetchRequest(
                    request.url,
                    headers=headers,
                    cookies={**cookies, **self._cookies},
                    method=request.method,
                    body=request.post_data_buffer,
                    follow_redirects=False,
                )
            )
            self._proxy_session.add_traffic(fetched.wire_bytes)
        except FetchError:
            await route.abort("blockedbyclient")
            return
        await _fulfill(route, fetched)


def _has_name_and_value(cookie: Mapping[str, object]) -> bool:
    return bool(cookie.get("name")) and "value" in cookie


async def _fulfill(route: Route, fetched: FetchedResponse) -> None:
    headers: dict[str, str] = {}
    for name, value in fetched.headers:
        if name not in _DROPPED_RESPONSE_HEADERS:
            # Playwright splits the cookies of several lines again.
            glue = "\n" if name == "set-cookie" else ", "
            headers[name] = f"{headers[name]}{glue}{value}" if name in headers else value
    await route.fulfill(status=fetched.status, headers=headers, body=fetched.body)
