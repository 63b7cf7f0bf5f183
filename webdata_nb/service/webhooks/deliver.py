"""Empties the outbox: a few lanes for each endpoint, so that a dead one delays nobody else."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from webdata_nb.contract.webhook_payloads import Notice
from webdata_nb.service.errors import NoSuchJob, StoreUnavailable
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.store.outbox import Delivery, Due, Outbox
from webdata_nb.service.store.records import Job
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.webhooks.schedule import POLICIES, DeliveryOutcome, next_delivery
from webdata_nb.service.webhooks.sender import Sender

log = logging.getLogger(__name__)

# At once to one account's endpoint, and to all of them.
LANES: Final = 4
ALL_LANES: Final = 256
POLL_S: Final = 2.0
# Beyond the longest timeout: a lease that runs out belongs to a process that is gone.
LEASE_S: Final = 60.0


class Jobs(Protocol):
    """Where the job of a delivery is found, with its URL and secret."""

    async def job(self, account_id: str, job_id: str) -> Job:
        """Return an account's job; raises `NoSuchJob`."""


class Deliverer:
    """Sends what is due, for as long as it runs; `clock` says what time it is."""

    def __init__(
        self,
        outbox: Outbox,
        jobs: Jobs,
        sender: Sender,
        clock: Callable[[], float],
        retry: StoreRetry,
    ) -> None:
        self._retry = retry
        self._outbox, self._jobs, self._sender, self._clock = outbox, jobs, sender, clock
        self._wake = asyncio.Event()
        self._lanes: Counter[tuple[str, str]] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Hint that something is to be sent; without it that is found within seconds."""
        self._wake.set()

    async def run(self) -> None:
        """Deliver, for ever."""
        try:
            while True:
                self._wake.clear()
                try:
                    wait_s = await self._open_lanes()
                except StoreUnavailable as trouble:
                    log.warning("webhooks wait: %s", trouble)
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
        """Start what can be sent now; return the seconds until there may be more."""
        now = self._clock()
        for due in await self._outbox.due(now=now):
            key = (due.account_id, due.endpoint)
            free = min(LANES - self._lanes[key], due.count, ALL_LANES - len(self._tasks))
            for _ in range(free):
                self._lanes[key] += 1
                task = asyncio.create_task(self._lane(due))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        following = await self._outbox.next_due()
        return POLL_S if following is None else min(POLL_S, max(0.05, following - now))

    async def _lane(self, due: Due) -> None:
        """Send to one endpoint until nothing is due there."""
        key = (due.account_id, due.endpoint)
        try:
            with on_behalf_of(due.account_id):
                await self._send_due(due)
        except Exception as error:
            if isinstance(error, StoreUnavailable):
                log.warning("webhooks wait: %s", error)
            else:
                log.exception("a webhook could not be sent; it is tried again")
            await asyncio.sleep(POLL_S)  # the end of a lane opens the next one at once
        finally:
            self._lanes[key] -= 1
            if not self._lanes[key]:
                del self._lanes[key]
            self._wake.set()

    async def _send_due(self, due: Due) -> None:
        while (
            delivery := await self._outbox.take(due, lease_s=LEASE_S, now=self._clock())
        ) is not None:
            await self._attempt(delivery)

    async def _attempt(self, delivery: Delivery) -> None:
        try:
            job = await self._jobs.job(delivery.account_id, delivery.job_id)
        except NoSuchJob:
            return  # it went, and its deliveries with it
        outcome = await self._sent(delivery, job)
        now = self._clock()
        policy = POLICIES[delivery.profile]
        following = next_delivery(policy, delivery.attempts + 1, outcome, now)
        if following.state != "delivered":
            log.info("webhook of job %s: %s, %s", job.id, outcome.text, following.state)

        async def settle() -> None:
            await self._outbox.settle(
                delivery,
                following.state,
                due_at=following.due_at,
                status=outcome.status,
                error=outcome.text,
                now=now,
            )

        # Not written, it would be sent again.
        await self._retry.run(settle)

    async def _sent(self, delivery: Delivery, job: Job) -> DeliveryOutcome:
        url = job.request.get("webhook_url")
        if url is None:
            return DeliveryOutcome(
                failure="secrets", text="no key of this service opens the webhook's URL"
            )
        try:
            return await self._sender.post(
                url,
                Notice(delivery.event, delivery.body),
                event_id=delivery.event_id,
                secret=job.request.get("webhook_secret"),
                policy=POLICIES[delivery.profile],
                context=job.context,
            )
        except Exception:
            log.exception("webhook of job %s", job.id)
            return DeliveryOutcome(failure="internal", text="the service made an error")
