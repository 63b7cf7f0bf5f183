"""Checks the webhook of a start, and adds its options to the job's context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from webdata_nb.contract.events import Profile
from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.page.errors import BadInput, FetchError
from webdata_nb.service.store.interface import Outbox
from webdata_nb.service.store.webhook_records import WEBHOOK_CONTEXT
from webdata_nb.service.webhooks.sender import Sender


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
