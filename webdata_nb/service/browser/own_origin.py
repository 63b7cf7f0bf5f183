"""A page's own origin, served to the browser by the service's fetcher.

The document was fetched before the browser opens it, and is not requested again. A job's headers
and cookies never enter the browser, so no redirect, frame or script can take them elsewhere: the
requests that may carry them are sent by the fetcher, hop by hop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.fetch import FetchedResponse, Fetcher, FetchRequest
from webdata_nb.service.web.urls import host_and_port, url_origin

if TYPE_CHECKING:
    from playwright.async_api import Page, Request, Route

    from webdata_nb.service.web.proxy_session import ProxySession

_NOT_PASSED_ON: Final = frozenset(
    {
        *("connection", "content-disposition", "content-encoding", "content-length"),
        *("keep-alive", "proxy-authenticate", "proxy-connection", "trailer"),
        *("transfer-encoding", "upgrade"),
    }
)
_NOT_SENT_ON: Final = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "cookie", "host", "keep-alive"),
        *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding"),
        *("upgrade", "expect"),
    }
)


class OwnOriginRouter:
    """Answers the requests of one page that its own origin is asked, where it has to.

    Parameters
    ----------
    document : Fetched
        The page's document.
    fetcher : Fetcher
        Sends what carries the job's headers and cookies.
    headers, cookies : mapping of str to str
        The job's own.
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
        # A redirect to another origin takes the job's headers away for good, as in the fetcher.
        been_at = {url_origin(hop.url) for hop in document.redirects}
        self._secret = bool(headers or cookies) and been_at <= {self._origin}
        self._served = False

    async def attach(self, page: Page) -> None:
        """Answer for the page's own origin from now on."""
        if self._secret:
            own = re.compile(f"^{re.escape(self._origin)}/", re.IGNORECASE)
            await page.context.route(own, self._answer)
        else:
            exactly = re.compile(f"^{re.escape(self._document.final_url)}(#.*)?$")
            await page.route(exactly, self._answer, times=1)

    async def _answer(self, route: Route, request: Request) -> None:
        if not self._served and request.is_navigation_request():
            self._served = True
            await _fulfill(route, self._document)
        elif self._secret and self._asked_by_own_page(request):
            await self._send(route, request)
        else:
            await route.continue_()

    def _asked_by_own_page(self, request: Request) -> bool:
        """Whether it is the page itself that asks, and not a frame of another origin in it."""
        frame = request.frame
        asking = frame
        if request.is_navigation_request() and frame.parent_frame is not None:
            asking = frame.parent_frame
        try:
            return url_origin(asking.url) == self._origin
        except FetchError:
            return False

    async def _send(self, route: Route, request: Request) -> None:
        """Send one request by the fetcher, with the job's headers and the browser's cookies."""
        kept = {k: v for k, v in request.headers.items() if k.lower() not in _NOT_SENT_ON}
        named = {name.lower() for name in self._headers}
        headers = {k: v for k, v in kept.items() if k.lower() not in named} | dict(self._headers)
        jar = await request.frame.page.context.cookies(request.url)
        cookies = {each["name"]: each["value"] for each in jar if _is_plain(each)}
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


def _is_plain(cookie: Mapping[str, object]) -> bool:
    return bool(cookie.get("name")) and "value" in cookie


async def _fulfill(route: Route, fetched: FetchedResponse) -> None:
    headers: dict[str, str] = {}
    for name, value in fetched.headers:
        if name not in _NOT_PASSED_ON:
            # Playwright takes the cookies of several lines apart again.
            glue = "\n" if name == "set-cookie" else ", "
            headers[name] = f"{headers[name]}{glue}{value}" if name in headers else value
    await route.fulfill(status=fetched.status, headers=headers, body=fetched.body)
