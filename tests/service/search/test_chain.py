"""The fallback chain over providers that are programmed, each its own way of failing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from webdata_nb.service.errors import JobFailed
from webdata_nb.service.search.chain import Link, ask, chain
from webdata_nb.service.search.providers.base import Found, ProviderProblem, Query

QUERY = Query("q", 5, "en", None, safe_search=False, account_id="a")
ENGINES = {"engine_one": ("a", "b"), "engine_two": ("b", "c"), "engine_three": ("d",)}


@dataclass
class Programmed:
    """A provider that answers what it was told to, page by page."""

    name: str
    pages: list[list[str] | ProviderProblem]
    asked: list[int] = field(default_factory=list)

    async def page(self, _query: Query, number: int) -> list[Found]:
        self.asked.append(number)
        answer = self.pages[number - 1] if number <= len(self.pages) else []
        if isinstance(answer, ProviderProblem):
            raise answer
        return [Found(f"http://x/{name}", name, "") for name in answer]


def providers(**pages: list[list[str] | ProviderProblem]) -> dict[str, Programmed]:
    return {name: Programmed(name, pages.get(name, [])) for name in "abcd"}


def test_the_chain_begins_with_the_requested_engine_and_asks_nobody_twice() -> None:
    assert chain("engine_two", ENGINES) == [
        Link("engine_two", "b"),
        Link("engine_two", "c"),
        Link("engine_one", "a"),
        Link("engine_three", "d"),
    ]


async def test_the_first_limited_the_second_empty_the_third_answers() -> None:
    known = providers(a=[ProviderProblem("rate_limited", "429")], c=[["1", "2"]], d=[["3"]])
    outcome = await ask(chain("engine_one", ENGINES), known, QUERY)
    assert [(a.provider, a.status, a.results_count) for a in outcome.attempts] == [
        ("a", "rate_limited", 0),
        ("b", "empty", 0),
        ("c", "ok", 2),
    ]
    assert all(attempt.elapsed_ms >= 0 for attempt in outcome.attempts)
    assert outcome.accepted == Link("engine_two", "c")
    assert outcome.fallback_used
    assert known["d"].asked == []


async def test_the_preferred_path_is_no_fallback() -> None:
    outcome = await ask(chain("engine_one", ENGINES), providers(a=[["1"]]), QUERY)
    assert (outcome.accepted, outcome.fallback_used) == (Link("engine_one", "a"), False)


async def test_pages_are_asked_until_enough_unique_results_are_there() -> None:
    known = providers(a=[["1", "2"], ["2", "3"], ["4", "5", "6"], ["7"]])
    outcome = await ask([Link("engine_one", "a")], known, QUERY)
    assert [found.title for found in outcome.found] == ["1", "2", "3", "4", "5"]
    assert known["a"].asked == [1, 2, 3]


async def test_a_provider_that_repeats_itself_is_left() -> None:
    known = providers(a=[["1"], ["1"], ["1"]])
    outcome = await ask([Link("engine_one", "a")], known, QUERY)
    assert len(outcome.found) == 1
    assert known["a"].asked == [1, 2]


async def test_results_of_earlier_pages_stand_when_a_later_page_fails() -> None:
    known = providers(a=[["1", "2"], ProviderProblem("timeout", "slow")])
    outcome = await ask([Link("engine_one", "a")], known, QUERY)
    assert len(outcome.found) == 2
    assert outcome.attempts[0].status == "ok"


async def test_all_empty_is_an_answer_and_all_in_error_is_a_failure() -> None:
    links = chain("engine_one", ENGINES)
    empty = await ask(links, providers(a=[ProviderProblem("blocked", "403")]), QUERY)
    assert (empty.accepted, empty.found, empty.fallback_used) == (None, (), False)
    broken = {name: [ProviderProblem("auth", "401")] for name in "abcd"}
    with pytest.raises(JobFailed, match="a: auth, b: auth"):
        await ask(links, providers(**broken), QUERY)  # type: ignore[arg-type]
