"""Callers with very short timeouts do not affect the host for others."""

from __future__ import annotations

import pytest

from tests.site.server import Site
from webdata_nb.pacing.backoff import BackoffPolicy
from webdata_nb.pacing.circuit_breaker import BreakerPolicy
from webdata_nb.pacing.host_pacing import HostPolicy
from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.polite_fetcher import Allowance, PoliteFetcher
from webdata_nb.service.web.throttle import HostThrottle


async def test_short_timeouts_of_callers_do_not_open_the_circuit(site: Site) -> None:
    site.page("/slow", "late", delay=30.0)
    site.page("/", "there")
    policy = HostPolicy(breaker=BreakerPolicy(BackoffPolicy(5.0, 60.0), threshold=3))
    async with Fetcher(EgressPolicy("local"), user_agent="t") as fetcher:
        polite = PoliteFetcher(fetcher, HostThrottle(policy))
        for _ in range(policy.breaker.threshold + 1):
            with pytest.raises(FetchError) as caught:
                await polite.fetch(FetchRequest(site.at("/slow")), Allowance(0.05))
            assert caught.value.kind == "timeout"
        fetched = await polite.fetch(FetchRequest(site.at("/")), Allowance(30.0))
    assert fetched.status == 200
