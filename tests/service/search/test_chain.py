"""The fallback chain, with scripted providers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.search.catalog import (
    APIS,
    DEFAULT_ENGINES,
    SearchSettings,
    usable_providers,
)
from webdata_nb.service.search.chain import (
    INDEXES,
    LOCAL,
    ChainLink,
    provider_chain,
    search_providers,
)
from webdata_nb.service.search.providers.api import (
    AttemptStatus,
    ProviderProblem,
    ResultPage,
    SearchQuery,
    SearchResult,
)

QUERY = SearchQuery("q", 5, "en", None, safe_search=False, account_id="a")
ENGINES = {"engine_one": ("a", "b"), "engine_two": ("b", "c"), "engine_three": ("d",)}


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class ScriptedProvider:
    """A provider that answers what it was told to, page by page."""

    name: str
    pages: list[list[str] | ProviderProblem]
    requested: list[int] = field(default_factory=list)

    @property
    def identity(self) -> str:
        return self.name

    async def fetch_page(self, query: SearchQuery, number: int) -> ResultPage:
        assert query is QUERY
        self.requested.append(number)
        answer = self.pages[number - 1] if number <= len(self.pages) else []
        if isinstance(answer, ProviderProblem):
            raise answer
        return ResultPage(tuple(SearchResult(f"http://x/{name}", name, "") for name in answer))


def providers(**pages: list[list[str] | ProviderProblem]) -> dict[str, ScriptedProvider]:
    return {name: ScriptedProvider(name, pages.get(name, [])) for name in "abcd"}


def test_chain_starts_with_requested_engine_without_repeats() -> None:
    assert provider_chain("engine_two", ENGINES) == [
        ChainLink("engine_two", "b"),
        ChainLink("engine_two", "c"),
        ChainLink("engine_one", "a"),
        ChainLink("engine_three", "d"),
    ]


@pytest.mark.parametrize("engine", DEFAULT_ENGINES)
def test_engine_asks_several_general_indexes_without_a_key(engine: str) -> None:
    entries = SearchSettings({}, {}).entries()
    usable = usable_providers(entries)[engine]
    general, rest = usable[: usable.index("mediawiki")], usable[usable.index("mediawiki") :]
    assert rest == ["mediawiki"]
    assert len({INDEXES.get(provider, provider) for provider in general}) >= 3


@pytest.mark.parametrize("status", ["rate_limited", "blocked"])
async def test_refusal_skips_providers_of_same_index(status: AttemptStatus) -> None:
    names = ("brave", "ddgs.brave", "ddgs.yahoo")
    known = {name: ScriptedProvider(name, [[name]]) for name in names}
    known["brave"] = ScriptedProvider("brave", [ProviderProblem(status, "no")])
    links = [ChainLink("engine_one", name) for name in names]
    outcome = await search_providers(links, known, QUERY, ProviderBreakers(), Clock())
    assert [attempt.status for attempt in outcome.attempts] == [status, status, "ok"]
    assert outcome.attempts[1].detail is not None
    assert outcome.attempts[1].detail.startswith("skipped: brave")
    assert known["ddgs.brave"].requested == []
    assert outcome.accepted == links[2]
    # It rests now: the same goes for the next search.
    again = await search_providers(links[:2], known, QUERY, ProviderBreakers(), Clock())
    assert known["ddgs.brave"].requested == []
    assert again.failure is not None


@pytest.mark.parametrize("status", ["auth", "timeout", "error"])
async def test_other_failures_do_not_skip_providers(status: AttemptStatus) -> None:
    known = {
        "brave": ScriptedProvider("brave", [ProviderProblem(status, "no")]),
        "ddgs.brave": ScriptedProvider("ddgs.brave", [["1"]]),
    }
    links = [ChainLink("engine_one", name) for name in known]
    outcome = await search_providers(links, known, QUERY, ProviderBreakers(), Clock())
    assert outcome.accepted == links[1]


def test_all_indexes_belong_to_providers() -> None:
    assert set(INDEXES) <= set(APIS)


async def test_third_provider_is_used_after_limit_and_empty() -> None:
    known = providers(a=[ProviderProblem("rate_limited", "429")], c=[["1", "2"]], d=[["3"]])
    outcome = await search_providers(
        provider_chain("engine_one", ENGINES), known, QUERY, ProviderBreakers()
    )
    assert [(a.provider, a.status, a.results_count) for a in outcome.attempts] == [
        ("a", "rate_limited", 0),
        ("b", "empty", 0),
        ("c", "ok", 2),
    ]
    assert all(attempt.elapsed_ms >= 0 for attempt in outcome.attempts)
    assert outcome.accepted == ChainLink("engine_two", "c")
    assert outcome.fallback_used
    assert known["d"].requested == []


async def test_first_provider_is_no_fallback() -> None:
    outcome = await search_providers(
        provider_chain("engine_one", ENGINES), providers(a=[["1"]]), QUERY, ProviderBreakers()
    )
    assert (outcome.accepted, outcome.fallback_used) == (ChainLink("engine_one", "a"), False)


async def test_pages_are_requested_until_enough_unique_results() -> None:
    known = providers(a=[["1", "2"], ["2", "3"], ["4", "5", "6"], ["7"]])
    outcome = await search_providers(
        [ChainLink("engine_one", "a")], known, QUERY, ProviderBreakers()
    )
    assert [found.title for found in outcome.results] == ["1", "2", "3", "4", "5"]
    assert known["a"].requested == [1, 2, 3]


async def test_repeated_pages_end_paging() -> None:
    known = providers(a=[["1"]] * 9)
    outcome = await search_providers(
        [ChainLink("engine_one", "a")], known, QUERY, ProviderBreakers()
    )
    assert len(outcome.results) == 1
    assert known["a"].requested == [1, 2, 3, 4]


async def test_repeated_page_does_not_end_paging() -> None:
    known = providers(a=[["1"], ["1"], ["1", "2"], ["2"], ["3"], []])
    outcome = await search_providers(
        [ChainLink("engine_one", "a")], known, QUERY, ProviderBreakers()
    )
    assert [found.title for found in outcome.results] == ["1", "2", "3"]
    assert known["a"].requested == [1, 2, 3, 4, 5, 6]


async def test_results_of_earlier_pages_are_kept_after_failure() -> None:
    known = providers(a=[["1", "2"], ProviderProblem("timeout", "slow")])
    outcome = await search_providers(
        [ChainLink("engine_one", "a")], known, QUERY, ProviderBreakers()
    )
    assert len(outcome.results) == 2
    assert outcome.attempts[0].status == "ok"


async def test_all_empty_is_success_and_all_errors_is_failure() -> None:
    links = provider_chain("engine_one", ENGINES)
    empty = await search_providers(
        links, providers(a=[ProviderProblem("blocked", "403")]), QUERY, ProviderBreakers()
    )
    assert (empty.accepted, empty.results, empty.fallback_used) == (None, (), False)
    broken = {name: [ProviderProblem("auth", "HTTP 401")] for name in "abcd"}
    failed = await search_providers(links, providers(**broken), QUERY, ProviderBreakers())  # type: ignore[arg-type]
    assert failed.failure is not None
    assert "a: auth (HTTP 401), b: auth (HTTP 401)" in failed.failure
    assert "webdata doctor" in failed.failure
    assert [attempt.status for attempt in failed.attempts] == ["auth"] * 4
    assert empty.failure is None


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        ({"engine_one": ("a", LOCAL)}, ["a"]),
        ({"engine_one": ("a",), "engine_two": (LOCAL,)}, ["a"]),
        ({"engine_two": (LOCAL, "a")}, ["a"]),
        ({"engine_one": (LOCAL, "a")}, [LOCAL, "a"]),
        ({"engine_one": (LOCAL,), "engine_two": ("a", LOCAL)}, [LOCAL, "a"]),
        ({"engine_one": (LOCAL,)}, [LOCAL]),
        ({"engine_two": (LOCAL,), "engine_three": (LOCAL,)}, [LOCAL]),
    ],
)
def test_local_index_answers_only_first_or_alone(
    engines: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    assert [link.provider for link in provider_chain("engine_one", engines)] == expected


def test_local_index_behind_the_web_says_why_it_never_answers() -> None:
    engines = {
        "engine_one": ("ddgs.brave", LOCAL),
        "engine_two": (LOCAL, "ddgs.brave"),
        "engine_three": ("serper", LOCAL),  # without a key
    }
    entries = SearchSettings(engines, {}).entries()
    problems = {entry.engine: entry.problem for entry in entries if entry.provider == LOCAL}
    assert "instead of the web" in problems.pop("engine_one")
    assert set(problems.values()) == {""}


@pytest.mark.parametrize("status", ["error", "timeout", "blocked", "auth", "rate_limited"])
async def test_empty_local_index_does_not_hide_web_errors(
    status: AttemptStatus,
) -> None:
    links = provider_chain("engine_one", {"engine_one": ("local", "a"), "engine_two": ("b",)})
    known = {
        "a": ScriptedProvider("a", [ProviderProblem(status, "no")]),
        "b": ScriptedProvider("b", [ProviderProblem("error", "never")]),
        "local": ScriptedProvider("local", []),
    }
    outcome = await search_providers(links, known, QUERY, ProviderBreakers())
    assert outcome.failure is not None
    assert f"local: empty, a: {status} (no), b: error (never)" in outcome.failure
    assert [each.status for each in outcome.attempts] == ["empty", status, "error"]
    # One provider of the web that has nothing to say is an answer.
    known["b"] = ScriptedProvider("b", [])
    assert (await search_providers(links, known, QUERY, ProviderBreakers())).failure is None


async def test_local_results_never_stand_in_for_the_web() -> None:
    links = provider_chain("engine_one", {"engine_one": ("a", "local")})
    broken = ScriptedProvider("a", [ProviderProblem("error", "no")])
    known = {"a": broken, "local": ScriptedProvider("local", [["mine"]])}
    failed = await search_providers(links, known, QUERY, ProviderBreakers())
    assert failed.failure is not None
    assert (failed.results, known["local"].requested) == ((), [])
    alone = provider_chain("engine_one", {"engine_one": ("local",)})
    found = await search_providers(alone, known, QUERY, ProviderBreakers())
    assert (found.failure, found.fallback_used, len(found.results)) == (None, False, 1)


async def test_no_usable_provider_is_a_failure_with_advice() -> None:
    outcome = await search_providers([], {}, QUERY, ProviderBreakers())
    assert outcome.failure is not None
    assert "webdata doctor" in outcome.failure


async def test_rate_limited_provider_is_skipped_with_reason() -> None:
    links, clock, breakers = provider_chain("engine_one", ENGINES), Clock(), ProviderBreakers()
    known = providers(a=[ProviderProblem("rate_limited", "HTTP 429", retry_after_s=30)], b=[["1"]])
    await search_providers(links, known, QUERY, breakers, clock)
    clock.now += 29
    outcome = await search_providers(links, known, QUERY, breakers, clock)
    assert known["a"].requested == [1]
    first = outcome.attempts[0]
    assert (first.provider, first.status, first.results_count) == ("a", "rate_limited", 0)
    assert (first.elapsed_ms, "rests for 1 s" in str(first.detail)) == (0, True)
    assert (outcome.accepted, outcome.fallback_used) == (ChainLink("engine_one", "b"), True)
    clock.now += 2
    await search_providers(links, known, QUERY, breakers, clock)
    assert known["a"].requested == [1, 1]


async def test_limit_after_results_keeps_rows_and_opens_circuit() -> None:
    clock, breakers = Clock(), ProviderBreakers()
    known = providers(a=[["1"], ProviderProblem("blocked", "captcha")])
    outcome = await search_providers([ChainLink("engine_one", "a")], known, QUERY, breakers, clock)
    assert (outcome.attempts[0].status, len(outcome.results)) == ("ok", 1)
    assert breakers.state("a").circuit.remaining_s(clock.now) > 0


async def test_no_request_follows_last_page() -> None:
    class SinglePageProvider(ScriptedProvider):
        async def fetch_page(self, query: SearchQuery, number: int) -> ResultPage:
            return ResultPage((await super().fetch_page(query, number)).results, has_more=False)

    once = SinglePageProvider("a", [["1"], ["2"]])
    outcome = await search_providers(
        [ChainLink("engine_one", "a")], {"a": once}, QUERY, ProviderBreakers()
    )
    assert (len(outcome.results), once.requested) == (1, [1])


async def test_circuit_changes_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    known, clock, breakers = providers(), Clock(), ProviderBreakers()
    links = [ChainLink("engine_one", "a")]
    known["a"].pages = [ProviderProblem("rate_limited", "private words")]
    for _ in range(3):
        await search_providers(links, known, QUERY, breakers, clock)
    known["a"].pages = [["x"]]
    clock.now += 61
    for _ in range(2):
        await search_providers(links, known, QUERY, breakers, clock)
    assert [record.message for record in caplog.records] == [
        "provider_resting provider=a account=a status=rate_limited failures=1 rest_s=60.0",
        "provider_recovered provider=a account=a after=rate_limited",
    ]
