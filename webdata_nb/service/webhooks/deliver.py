"""Sends the deliveries of the outbox, with a few lanes for each endpoint.

A dead endpoint delays only its own deliveries.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from webdata_nb.contract.webhook_payloads import WebhookPayload
from webdata_nb.service.errors import NoSuchJob, StoreUnavailable
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.store.interface import JobStore, Outbox
from webdata_nb.service.store.records import JobRecord
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.store.webhook_records import LANES_PER_ENDPOINT, Delivery, DueEndpoint
from webdata_nb.service.webhooks.schedule import POLICIES, DeliveryOutcome, next_delivery
from webdata_nb.service.webhooks.sender import Sender

log = logging.getLogger(__name__)

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
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
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
                task = asyncio.create_task(self._run_lane(endpoint))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
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
        outcome = await self._send(delivery, job)
        now = self._clock()
        policy = POLICIES[delivery.profile]
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

    async def _send(self, delivery: Delivery, job: JobRecord) -> DeliveryOutcome:
        url = job.request.get("webhook_url")
        if url is None:
            return DeliveryOutcome(
                failure="secrets", text="no key of this service opens the webhook's URL"
            )
        try:
            return await self._sender.post(
                url,
                WebhookPayload(delivery.event, delivery.body),
                event_id=delivery.event_id,
                secret=job.request.get("webhook_secret"),
                policy=POLICIES[delivery.profile],
                context=job.context,
            )
        except Exception:
            log.exception("webhook of job %s", job.id)
            return DeliveryOutcome(failure="internal", text="the service made an error")
