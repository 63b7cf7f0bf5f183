"""What the searches of one account do to the providers that all accounts share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.service.conftest import Api, open_service
from tests.service.routes.teams import member
from tests.service.search.stubs import KEY, Stub, StubRequest, results, stubs
from tests.site.server import Site
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.service.search.catalog import APIS


@dataclass(frozen=True, slots=True)
class Team:
    """A service whose accounts, Alice's and Bob's, share one search provider."""

    api: Api
    stub: Stub
    alice: dict[str, str]
    bob: dict[str, str]

    async def search(self, account_headers: dict[str, str], **body: Any) -> Any:
        search = {"query": "kettles", "formats": [], **body}
        started = await self.api.post("/v1/search?wait=30", search, headers=account_headers)
        return started["result"]

    async def provider_of(self, account_headers: dict[str, str], **body: Any) -> tuple[str, str]:
        """Return how the shared provider's attempt ended, and why."""
        [first, *_] = (await self.search(account_headers, **body))["fallback_chain"]
        assert first["provider"] == self.stub.name
        return first["status"], first.get("detail") or ""

    async def resting_s(self, account_headers: dict[str, str]) -> float:
        listed = await self.api.get("/v1/engines", headers=account_headers)
        return max(
            float(each["resting_s"])
            for each in listed["engines"]
            if each["provider"] == self.stub.name
        )


def usually(stub: Stub, request: StubRequest) -> web.Response:
    reply = stub.answer(request, stub.served)
    return reply if isinstance(reply, web.Response) else web.json_response(reply)


@pytest.fixture(autouse=True)
def without_pacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for turns, which have tests of their own."""
    for api in APIS.values():
        monkeypatch.setattr(
            api, "rate_limit", replace(api.rate_limit, interval_s=0.0), raising=False
        )
        monkeypatch.setattr(api, "interval_s", lambda _reply: None, raising=False)


@asynccontextmanager
async def team_with(name: str, site: Site, data_dir: Path, suffix: str = "") -> AsyncIterator[Team]:
    stub = stubs()[name]
    stub.served = results(3)
    access = {"url": stub.on(site) + suffix, **({"key": KEY} if stub.keyed else {})}
    providers = SessionSettings.model_validate(
        {"engines": dict.fromkeys(ENGINES, (name, "local")), "providers": {name: access}}
    )
    alice, bob = await member(data_dir, "alice"), await member(data_dir, "bob")
    async with open_service(data_dir, "team", providers=providers) as api:
        yield Team(api, stub, alice, bob)


@pytest.fixture
async def team(tmp_path: Path, site: Site) -> AsyncIterator[Team]:
    async with team_with("brave", site, tmp_path) as made:
        yield made


async def test_queries_that_a_provider_does_not_take_put_it_to_rest_for_nobody(
    team: Team,
) -> None:
    for query in ("x" * 401, "x " * 51, "y" * 500, "z" * 1000):
        status, detail = await team.provider_of(team.alice, query=query)
        assert (status, "400 characters" in detail) == ("error", True)
    for account_headers in (team.bob, team.alice):
        assert await team.provider_of(account_headers) == ("ok", "")
        assert await team.resting_s(account_headers) == 0


@pytest.mark.parametrize("name", ["brave", "serper", "tavily", "searxng"])
@pytest.mark.parametrize("code", [400, 422])
async def test_what_a_provider_answers_to_one_query_rests_it_for_nobody(
    name: str, code: int, tmp_path: Path, site: Site
) -> None:
    async with team_with(name, site, tmp_path) as team:
        team.stub.other = lambda _request: web.Response(status=code, text='{"detail": "bad query"}')
        for _ in range(4):
            status, detail = await team.provider_of(team.alice)
            expected = 'it does not take this query; it says "bad query"'
            assert (status, detail) == ("error", expected)
        team.stub.other = None
        assert await team.provider_of(team.bob) == ("ok", "")
        assert await team.provider_of(team.alice) == ("ok", "")


async def test_errors_in_a_good_answer_that_blame_the_query(tmp_path: Path, site: Site) -> None:
    reply = {"error": {"code": "cirrussearch-query-too-long", "info": "300 bytes at most"}}
    async with team_with("mediawiki", site, tmp_path) as team:
        team.stub.other = lambda _request: web.json_response(reply)
        for _ in range(4):
            assert (await team.provider_of(team.alice))[0] == "error"
        team.stub.other = None
        assert await team.provider_of(team.bob) == ("ok", "")


async def test_a_language_without_a_wiki_rests_no_other_wiki(tmp_path: Path, site: Site) -> None:
    async with team_with("mediawiki", site, tmp_path, "?l={language}") as team:
        team.stub.other = lambda request: (
            web.Response(status=404)
            if request.parameters["l"] == "xx"
            else usually(team.stub, request)
        )
        for _ in range(4):
            status, detail = await team.provider_of(team.alice, language="xx")
            assert (status, "language" in detail) == ("error", True)
        assert await team.provider_of(team.bob) == ("ok", "")


async def test_failures_that_one_account_alone_meets_rest_the_provider_for_it_alone(
    team: Team,
) -> None:
    team.stub.other = lambda request: (
        web.Response(status=500)
        if request.parameters["q"] == "poison"
        else usually(team.stub, request)
    )
    for _ in range(3):
        assert (await team.provider_of(team.alice, query="poison"))[0] == "error"
    status, detail = await team.provider_of(team.alice)
    assert (status, "rests" in detail) == ("error", True)
    assert await team.provider_of(team.bob) == ("ok", "")
    assert await team.resting_s(team.alice) > 0
    assert await team.resting_s(team.bob) == 0


async def test_an_outage_that_two_accounts_meet_rests_the_provider_for_all(team: Team) -> None:
    team.stub.other = lambda _request: web.Response(status=500)
    for account_headers in (team.alice, team.bob, team.alice):
        assert await team.provider_of(account_headers) == ("error", "it failed (status 500)")
    requests = len(team.stub.requests)
    for account_headers in (team.alice, team.bob):
        assert "rests" in (await team.provider_of(account_headers))[1]
    assert len(team.stub.requests) == requests


async def test_a_limit_of_the_operators_key_rests_it_for_all(team: Team) -> None:
    team.stub.other = lambda _request: web.Response(status=429)
    assert (await team.provider_of(team.alice))[0] == "rate_limited"
    assert "rests" in (await team.provider_of(team.bob))[1]
