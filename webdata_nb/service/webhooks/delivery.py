"""Sends the deliveries of the outbox, with a few lanes for each endpoint.

A dead endpoint delays only its own deliveries. Webhooks go to public HTTPS endpoints; no redirect
is followed and no body read. Endpoints are checked when a job starts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from webdata_nb.contract.events import (
    DELIVERY_HEADER,
    EVENT_HEADERS,
    EVENT_ID_HEADER,
    SIGNATURE_HEADERS,
    Profile,
    WebhookPayload,
    sign,
)
from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.page.errors import BadInput, FetchError
from webdata_nb.service.errors import EgressDenied, NameServerTimeout, NoSuchJob, StoreUnavailable
from webdata_nb.service.runtime.event_loop import OpenContexts, start_task, wait_at_most
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.settings import DIRECT, Upstream
from webdata_nb.service.store.job_context import StoreRetry
from webdata_nb.service.store.records import (
    LANES_PER_ENDPOINT,
    WEBHOOK_CONTEXT,
    Delivery,
    DueEndpoint,
)
from webdata_nb.service.store.sql.jobs import JobStore
from webdata_nb.service.store.sql.outbox import Outbox
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.webhooks.schedule import (
    POLICIES,
    DeliveryOutcome,
    DeliveryPolicy,
    next_delivery,
)

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
        self._fetchers = OpenContexts(self._new_fetcher)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._fetchers.aclose()

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
        headers = {"Content-Type": "application/json", EVENT_ID_HEADER: event_id}
        headers |= dict.fromkeys(EVENT_HEADERS, notice.event)
        headers[DELIVERY_HEADER] = str(int(time.time()))
        if secret:
            headers |= dict.fromkeys(SIGNATURE_HEADERS, sign(notice.body, secret))
        request = FetchRequest(
            url,
            headers=headers,
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
        return await self._fetchers.get((None if _is_loopback(url) else proxy, ca_bundle))

    def _new_fetcher(self, upstream: tuple[str | None, str | None]) -> Fetcher:
        proxy, ca_bundle = upstream
        return Fetcher(
            self._policy,
            user_agent=self._user_agent,
            proxy=proxy,
            ca_bundle=Path(ca_bundle) if ca_bundle else None,
        )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The webhooks of a service: their outbox, sender and options.

    `wake` hints that a delivery is due.
    """

    outbox: Outbox
    sender: Sender
    profile: Profile
    pages: bool
    wake: Callable[[], None]

    async def add_options(
        self, request: SearchRequest | CrawlRequest, context: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Check a start's endpoint; return the job's context with the options of its webhook."""
        if request.webhook_url is None:
            if request.webhook_secret is not None:
                raise BadInput("needs a webhook_url", loc=("body", "webhook_secret"))
            return context
        await self.check(request.webhook_url, context)
        return {**context, WEBHOOK_CONTEXT: {"profile": self.profile.value, "pages": self.pages}}

    async def check(self, url: str, context: Mapping[str, Any]) -> None:
        """Raise `BadInput` for an endpoint that may not be used."""
        try:
            await self.sender.check(url, context)
        except FetchError as error:
            raise BadInput(str(error), loc=("body", "webhook_url")) from None


log: Final = logging.getLogger(__name__)

# Concurrent attempts of this process at all endpoints.
MAX_LANES: Final = 256
POLL_S: Final = 2.0
# Longer than any timeout: if a lease runs out, its process has died.
LEASE_S: Final = 60.0


class Deliverer:
    """Sends due deliveries while it runs; `clock` returns the time."""

    def __init__(
        self,
        outbox: Outbox,
        jobs: JobStore,
        sender: Sender,
        clock: Callable[[], float],
        retry: StoreRetry,
    ) -> None:
        self._retry = retry
        self._outbox, self._jobs, self._sender, self._clock = outbox, jobs, sender, clock
        self._wake = asyncio.Event()
        self._lanes: Counter[tuple[str, str]] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_store_away = False

    def wake(self) -> None:
        """Hint that a delivery is due; else it is found within seconds."""
        self._wake.set()

    async def run(self) -> None:
        """Deliver forever."""
        try:
            while True:
                self._wake.clear()
                try:
                    wait_s = await self._open_lanes()
                    self._is_store_away = False
                except StoreUnavailable as error:
                    self._warn(error)
                    wait_s = POLL_S
                except Exception:
                    log.exception("the outbox could not be read; trying again")
                    wait_s = POLL_S
                await wait_at_most(self._wake, wait_s)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open_lanes(self) -> float:
        """Start lanes for the due deliveries; return the seconds until there may be more."""
        now = self._clock()
        for endpoint in await self._outbox.due(now=now):
            key = (endpoint.account_id, endpoint.endpoint)
            new_lanes = min(
                LANES_PER_ENDPOINT - self._lanes[key], endpoint.count, MAX_LANES - len(self._tasks)
            )
            for _ in range(new_lanes):
                self._lanes[key] += 1
                start_task(self._run_lane(endpoint), self._tasks)
        next_due = await self._outbox.next_due(after=now)
        return POLL_S if next_due is None else min(POLL_S, max(0.05, next_due - now))

    def _warn(self, error: StoreUnavailable) -> None:
        """Log that deliveries wait for the store, once per outage."""
        if not self._is_store_away:
            log.warning("webhooks wait: %s", error)
        self._is_store_away = True

    async def _run_lane(self, endpoint: DueEndpoint) -> None:
        """Send to an endpoint until nothing is due there."""
        key = (endpoint.account_id, endpoint.endpoint)
        try:
            with on_behalf_of(endpoint.account_id):
                await self._send_due(endpoint)
        except Exception as error:
            if isinstance(error, StoreUnavailable):
                self._warn(error)
            else:
                log.exception("a webhook could not be sent; it is tried again")
            await asyncio.sleep(POLL_S)  # the end of a lane wakes the loop, which opens another one
        finally:
            self._lanes[key] -= 1
            if not self._lanes[key]:
                del self._lanes[key]
            self._wake.set()

    async def _send_due(self, endpoint: DueEndpoint) -> None:
        while (
            delivery := await self._outbox.take(endpoint, lease_s=LEASE_S, now=self._clock())
        ) is not None:
            try:
                await self._attempt(delivery)
            except asyncio.CancelledError:  # the process stops
                with suppress(StoreUnavailable):  # then the lease runs out
                    await self._outbox.release(delivery)
                raise

    async def _attempt(self, delivery: Delivery) -> None:
        try:
            job = await self._jobs.job(delivery.account_id, delivery.job_id)
        except NoSuchJob:
            return  # deleted, with its deliveries
        policy = POLICIES[delivery.profile]
        url = job.request.get("webhook_url")
        if url is None:
            outcome = DeliveryOutcome(
                failure="secrets", text="no key of this service opens the webhook's URL"
            )
        else:
            try:
                outcome = await self._sender.post(
                    url,
                    WebhookPayload(delivery.event, delivery.body),
                    event_id=delivery.event_id,
                    secret=job.request.get("webhook_secret"),
                    policy=policy,
                    context=job.context,
                )
            except Exception:
                log.exception("webhook of job %s", job.id)
                outcome = DeliveryOutcome(failure="internal", text="the service made an error")
        now = self._clock()
        following = next_delivery(policy, delivery.attempts + 1, outcome, now)
        if following.state != "delivered":
            log.info("webhook of job %s: %s, %s", job.id, outcome.text, following.state)

        async def record() -> None:
            await self._outbox.record_attempt(
                delivery,
                following.state,
                due_at=following.due_at,
                status=outcome.status,
                error=outcome.text,
                now=now,
            )

        # An attempt that is not recorded would be made again.
        await self._retry.run(record)
