"""Holds the objects that route handlers share, and the settings of sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webdata_nb.contract.local import NO_CREATIVES, Creatives, SessionSettings
from webdata_nb.service.creatives.listing import CreativesListing
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.routes.response_cache import ResponseCache
from webdata_nb.service.settings import Retention
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.webhooks.delivery import Webhooks
from webdata_nb.service.work.engines import JobEngines
from webdata_nb.service.work.events import JobEvents
from webdata_nb.service.work.runner import Runner

MAX_CACHED_SESSIONS = 64


class LeasedSessions:
    """Reads the settings that sessions bound to their leases of the local service."""

    def __init__(self, lifetime: LocalLifetime, creatives: Creatives = NO_CREATIVES) -> None:
        self._lifetime, self._creatives = lifetime, creatives
        self._contexts: dict[str | None, tuple[SessionSettings, Mapping[str, Any]]] = {}

    def context_of(self, lease_id: str | None) -> Mapping[str, Any]:
        """Return the settings that a job inherits from its session; empty without a session."""
        settings = self._lifetime.settings_of(lease_id)
        cached = self._contexts.get(lease_id)
        if cached is None or cached[0] is not settings:
            # Creatives calls are not jobs, and their token must not reach the database.
            context = settings.model_dump(mode="json", exclude_defaults=True, exclude={"creatives"})
            cached = self._contexts[lease_id] = settings, context
            while len(self._contexts) > MAX_CACHED_SESSIONS:
                del self._contexts[next(iter(self._contexts))]
        return cached[1]

    def creatives_of(self, lease_id: str | None) -> Creatives:
        """Return the creatives source of the session, or that of the service."""
        creatives = self._lifetime.settings_of(lease_id).creatives
        return self._creatives if creatives == NO_CREATIVES else creatives


@dataclass(frozen=True, slots=True)
class AppState:
    """Shared objects of the route handlers, stored as `app.state.app_state`."""

    store: Store
    engines: JobEngines
    runner: Runner
    events: JobEvents
    webhooks: Webhooks
    creatives: CreativesListing
    sessions: LeasedSessions
    retry: StoreRetry
    retention: Retention
    clock: Callable[[], float] = time.time
    response_cache: ResponseCache = field(default_factory=ResponseCache)
