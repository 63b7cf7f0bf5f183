"""What a start may ask for: an endpoint that may be sent to, and the events of its job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from webdata_nb.contract.events import Profile
from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.service.errors import BadInput, FetchError
from webdata_nb.service.store.outbox import CONTEXT, Outbox
from webdata_nb.service.webhooks.sender import Sender


@dataclass(frozen=True, slots=True)
class Webhooks:
    """What the routes need for webhooks."""

    outbox: Outbox
    sender: Sender
    profile: Profile
    pages: bool
    wake: Callable[[], None]

    async def plan(
        self, wanted: SearchRequest | CrawlRequest, context: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Check a start's endpoint; return the context with what its job tells, and how."""
        if wanted.webhook_url is None:
            if wanted.webhook_secret is not None:
                raise BadInput("needs a webhook_url", loc=("body", "webhook_secret"))
            return context
        await self.check(wanted.webhook_url, context)
        return {**context, CONTEXT: {"profile": self.profile.value, "pages": self.pages}}

    async def check(self, url: str, context: Mapping[str, Any]) -> None:
        """Raise `BadInput` for an endpoint that nothing may be sent to."""
        try:
            await self.sender.check(url, context)
        except FetchError as error:
            raise BadInput(str(error), loc=("body", "webhook_url")) from None
