"""Callers who give a host hardly any time, and the host that others fetch from."""

from __future__ import annotations

import pytest

from tests.site.server import Site
from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.polite_fetcher import Allowance, PoliteFetcher
from webdata_nb.service.web.politeness import Manners
from webdata_nb.service.web.throttle import HostThrottle


async def test_a_host_is_not_left_alone_for_what_a_callers_timeout_cut_off(site: Site) -> None:
    site.page("/slow", "late", delay=30.0)
    site.page("/", "there")
    manners = Manners(broken_after=3)
    async with Fetcher(EgressPolicy("local"), user_agent="t") as fetcher:
        polite = PoliteFetcher(fetcher, HostThrottle(manners))
        for _ in range(manners.broken_after + 1):
            with pytest.raises(FetchError) as caught:
                await polite.fetch(FetchRequest(site.at("/slow")), Allowance(0.05))
            assert caught.value.kind == "timeout"
        fetched = await polite.fetch(FetchRequest(site.at("/")), Allowance(30.0))
    assert fetched.status == 200
