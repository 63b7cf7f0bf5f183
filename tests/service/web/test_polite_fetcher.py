"""Retry delays, and what is reported to the throttle."""

from __future__ import annotations

import pytest

from tests.site.server import Site
from webdata_nb.pacing.circuit_breaker import BreakerPolicy
from webdata_nb.pacing.host_pacing import HostPolicy
from webdata_nb.page.errors import FetchError
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.polite_fetcher import PageDeadline, PoliteFetcher, retry_delay_s
from webdata_nb.service.web.throttle import HostThrottle


async def test_short_timeouts_of_callers_do_not_open_the_circuit(site: Site) -> None:
    site.page("/slow", "late", delay=30.0)
    site.page("/", "there")
    policy = HostPolicy(breaker=BreakerPolicy(5.0, 60.0, threshold=3))
    async with Fetcher(EgressPolicy("local"), user_agent="t") as fetcher:
        polite = PoliteFetcher(fetcher, HostThrottle(policy))
        for _ in range(policy.breaker.threshold + 1):
            with pytest.raises(FetchError) as caught:
                await polite.fetch(FetchRequest(site.at("/slow")), PageDeadline(0.05))
            assert caught.value.kind == "timeout"
        fetched = await polite.fetch(FetchRequest(site.at("/")), PageDeadline(30.0))
    assert fetched.status == 200


@pytest.mark.parametrize(
    ("attempt", "status", "kind", "retry_after_s", "remaining_s", "expected"),
    [
        (1, 503, "", None, 30, 0.25),
        (2, 503, "", None, 30, 0.5),
        (3, 503, "", None, 30, None),
        (1, 429, "", 7, 30, 7),
        (1, 429, "", 31, 30, None),
        (1, 503, "", None, 0.1, None),
        (1, 404, "", None, 30, None),
        (1, 200, "", None, 30, None),
        (1, None, "reset", None, 30, 0.25),
        (1, None, "dns", None, 30, None),
        (1, None, "timeout", None, 30, None),
        (1, None, "refused", None, 30, None),
    ],
)
def test_retry_delay(
    *,
    attempt: int,
    status: int | None,
    kind: str,
    retry_after_s: float | None,
    remaining_s: float,
    expected: float | None,
) -> None:
    delay_s = retry_delay_s(
        attempt, status=status, kind=kind, retry_after_s=retry_after_s, remaining_s=remaining_s
    )
    assert delay_s == expected
