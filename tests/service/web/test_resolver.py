from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.service.addresses import NAME_TEXT
from webdata_nb.page.errors import FetchError
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.web import resolver as resolver_module
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.resolver import Resolver

LOCAL = EgressPolicy("local")
TEAM = EgressPolicy("team")


class Names:
    """A name server that remembers what it was asked."""

    def __init__(self, **known: Sequence[str] | Exception) -> None:
        self.known: dict[str, Sequence[str] | Exception] = dict(known)
        self.lookups: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, host: str) -> Sequence[str]:
        self.lookups.append(host)
        await self.may_answer.wait()
        answer = self.known.get(host, socket.gaierror(-2, "Name or service not known"))
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def names() -> Names:
    return Names(site=["93.184.215.14", "2606:4700::1", "93.184.215.14"], nowhere=[])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def resolver(names: Names, clock: Clock) -> AsyncIterator[Resolver]:
    opened = Resolver(TEAM, lookup=names, clock=clock)
    yield opened
    await opened.close()


async def test_addresses_are_unique(resolver: Resolver) -> None:
    assert await resolver.addresses("site", 80) == ("93.184.215.14", "2606:4700::1")
    record_connections = [
        (found["host"], found["port"]) for found in await resolver.resolve("site", 443)
    ]
    assert record_connections == [("93.184.215.14", 443), ("2606:4700::1", 443)]


@pytest.mark.parametrize("bad", ["10.0.0.1", "127.0.0.1", "169.254.169.254"])
async def test_one_forbidden_address_refuses_host(
    names: Names, resolver: Resolver, bad: str
) -> None:
    names.known["mixed"] = ["93.184.215.14", bad]
    messages = []
    hosts = ("mixed", "unknown", "nowhere")
    for host in hosts:
        with pytest.raises(FetchError) as caught:
            await resolver.addresses(host, 80)
        messages.append((type(caught.value), caught.value.kind, str(caught.value)))
    assert messages == [
        (FetchError, "dns", NAME_TEXT.format(h)) for h in ("mixed", "unknown", "nowhere")
    ]


async def test_local_mode_states_reason_of_refusal(names: Names) -> None:
    names.known["metadata"] = ["169.254.169.254"]
    resolver = Resolver(LOCAL, lookup=names)
    with pytest.raises(EgressDenied):
        await resolver.addresses("metadata", 80)
    with pytest.raises(FetchError, match="'unknown' could not be found"):
        await resolver.addresses("unknown", 80)


async def test_upstream_proxy_decides_only_on_unknown_names(
    names: Names, resolver: Resolver
) -> None:
    names.known["private"] = ["10.0.0.1"]
    assert await resolver.known_addresses("site", 80) == await resolver.addresses("site", 80)
    for host in ("unknown", "nowhere"):
        assert await resolver.known_addresses(host, 80) == ()
    with pytest.raises(FetchError) as caught:
        await resolver.known_addresses("private", 80)
    assert caught.value.kind == "dns"


async def test_lookup_is_cached_for_a_minute(
    names: Names, resolver: Resolver, clock: Clock
) -> None:
    for port in (80, 443):
        await resolver.addresses("site", port)
    assert names.lookups == ["site"]
    clock.now += resolver_module.CACHE_S
    await resolver.addresses("site", 80)
    assert names.lookups == ["site", "site"]


@pytest.mark.parametrize("host", ["unknown", "nowhere"])
async def test_failure_is_cached(names: Names, resolver: Resolver, host: str) -> None:
    for _ in range(3):
        with pytest.raises(FetchError, match=host) as caught:
            await resolver.addresses(host, 80)
        assert caught.value.kind == "dns"
    assert names.lookups == [host]


async def test_invalid_host_name(names: Names) -> None:
    names.known["x" * 64] = UnicodeError("label too long")
    with pytest.raises(FetchError, match="it is not a host name"):
        await Resolver(LOCAL, lookup=names).addresses("x" * 64, 80)


async def test_concurrent_callers_share_one_lookup(names: Names, resolver: Resolver) -> None:
    names.may_answer.clear()
    asking = [asyncio.create_task(resolver.addresses("site", 80)) for _ in range(5)]
    await asyncio.sleep(0)
    asking[0].cancel()
    names.may_answer.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [("93.184.215.14", "2606:4700::1")] * 4
    assert names.lookups == ["site"]


async def test_silent_name_server_times_out(
    names: Names, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver_module, "LOOKUP_TIMEOUT_S", 0.01)
    names.may_answer.clear()
    with pytest.raises(FetchError, match="gave no answer for 'site'") as caught:
        await resolver.addresses("site", 80)
    assert caught.value.kind == "dns"


async def test_close_cancels_lookups(names: Names) -> None:
    resolver = Resolver(TEAM, lookup=names)
    names.may_answer.clear()
    asking = asyncio.create_task(resolver.addresses("site", 80))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert names.lookups == ["site"]
    await resolver.close()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_cache_is_bounded(
    names: Names, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver._cache, "most", 2)
    for name in ("one", "two", "three"):
        names.known[name] = ["93.184.215.14"]
        await resolver.addresses(name, 80)
    await resolver.addresses("three", 80)
    await resolver.addresses("one", 80)
    assert names.lookups == ["one", "two", "three", "one"]


async def test_system_resolver_is_the_default() -> None:
    resolver = Resolver(LOCAL)
    try:
        assert "127.0.0.1" in await resolver.addresses("localhost", 80)
        with pytest.raises(FetchError) as caught:
            await resolver.addresses("x" * 70 + ".invalid", 80)
        assert caught.value.kind == "dns"
    finally:
        await resolver.close()


async def test_silent_names_of_one_account_do_not_delay_others(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver_module, "LOOKUP_TIMEOUT_S", 0.2)
    monkeypatch.setattr(resolver_module, "QUEUE_S", 0.1)

    async def lookup(host: str) -> Sequence[str]:
        if host.startswith("silent"):
            await asyncio.Event().wait()
        return ["93.184.215.14"]

    async def addresses(account: str, host: str) -> tuple[str, ...]:
        with on_behalf_of(account):
            return await opened.addresses(host, 80)

    opened = Resolver(TEAM, lookup=lookup, clock=clock)
    hosts = [*(f"silent{n}" for n in range(40)), "victim"]
    tasks = [asyncio.create_task(addresses("a", host)) for host in hosts]
    await asyncio.sleep(0)
    # Neither while the other account's lookup of the name waits, nor after it has failed.
    assert await addresses("b", "victim") == ("93.184.215.14",)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, FetchError) for outcome in outcomes[:-1])
    assert await addresses("b", "victim") == ("93.184.215.14",)
    assert await addresses("a", "victim") == ("93.184.215.14",)
    await opened.close()
