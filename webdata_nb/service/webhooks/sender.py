"""Posts webhooks to public HTTPS endpoints; follows no redirect and reads no body."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from webdata_nb.contract.events import (
    DELIVERY_HEADER,
    EVENT_HEADERS,
    EVENT_ID_HEADER,
    SIGNATURE_HEADERS,
)
from webdata_nb.contract.signature import sign
from webdata_nb.contract.webhook_payloads import WebhookPayload
from webdata_nb.page.errors import FetchError
from webdata_nb.service.errors import EgressDenied, NameServerTimeout
from webdata_nb.service.settings import DIRECT, Upstream
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.webhooks.schedule import DeliveryOutcome, DeliveryPolicy

LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
# A slow name server does not block a start: the delivery looks the name up again.
_CHECK_TIMEOUT_S: Final = 5.0


def webhook_policy(
    networks: tuple[Any, ...], *, own_port: int | None, loopback: bool
) -> EgressPolicy:
    """Return the addresses that webhooks may reach: public ones, and those that are admitted."""
    admitted = (*networks, *LOOPBACK) if loopback else networks
    return EgressPolicy("team", admitted, own_port)


class Sender:
    """Posts webhooks, to be used by `async with`."""

    def __init__(
        self,
        policy: EgressPolicy,
        user_agent: str,
        *,
        loopback: bool,
        upstream: Upstream = DIRECT,
    ) -> None:
        self._policy, self._user_agent, self._loopback = policy, user_agent, loopback
        self._upstream = upstream
        self._open: dict[tuple[str | None, str | None], Fetcher] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def check(self, url: str, context: Mapping[str, Any]) -> None:
        """Check an endpoint before its job is stored.

        Raises
        ------
        FetchError
            The endpoint may not be used. A slow name server is no error.
        """
        is_loopback = _is_loopback(url)
        if urlsplit(url).scheme.lower() != "https" and not (is_loopback and self._loopback):
            raise EgressDenied("a webhook goes to a public https:// address")
        fetcher = await self._fetcher(url, context)
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT_S):
                await fetcher.check(url)
        except (TimeoutError, NameServerTimeout):
            return

    async def post(
        self,
        url: str,
        notice: WebhookPayload,
        *,
        event_id: str,
        secret: str | None,
        policy: DeliveryPolicy,
        context: Mapping[str, Any],
    ) -> DeliveryOutcome:
        """Make one attempt; failures are outcomes too."""
        request = FetchRequest(
            url,
            headers=_headers(notice, event_id, secret),
            accept="*/*",
            method="POST",
            body=notice.body,
            timeout_s=policy.timeout_s,
            follow_redirects=False,
            read_body=False,
        )
        try:
            fetcher = await self._fetcher(url, context)
            reply = await fetcher.fetch(request)
        except FetchError as error:
            return DeliveryOutcome(failure=error.kind, text=str(error))
        text = None if reply.status < policy.acknowledged_below else f"HTTP {reply.status}"
        return DeliveryOutcome(status=reply.status, text=text)

    async def _fetcher(self, url: str, context: Mapping[str, Any]) -> Fetcher:
        """Return the fetcher of a job with this context; loopback needs no proxy."""
        proxy, ca_bundle = self._upstream.of(context)
        proxy = None if _is_loopback(url) else proxy
        async with self._lock:
            if (proxy, ca_bundle) not in self._open:
                fetcher = Fetcher(
                    self._policy,
                    user_agent=self._user_agent,
                    proxy=proxy,
                    ca_bundle=Path(ca_bundle) if ca_bundle else None,
                )
                self._open[proxy, ca_bundle] = await self._stack.enter_async_context(fetcher)
        return self._open[proxy, ca_bundle]


def _headers(notice: WebhookPayload, event_id: str, secret: str | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", EVENT_ID_HEADER: event_id}
    headers |= dict.fromkeys(EVENT_HEADERS, notice.event)
    headers[DELIVERY_HEADER] = str(int(time.time()))
    if secret:
        headers |= dict.fromkeys(SIGNATURE_HEADERS, sign(notice.body, secret))
    return headers


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
