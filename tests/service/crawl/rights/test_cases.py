"""Every reader of signals on the examples of the drafts and on cases of our own.

`cases.jsonl` has one case a line: the reader, its input, what it should say, and the origin: `own`,
or the document that has the example.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.steps import run_to_completion
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape
from webdata_nb.page.urls import parse_link_header
from webdata_nb.service.crawl.rights.page_signals import PageSignals, RobotsUsage, parse_tdm_file
from webdata_nb.service.crawl.rights.rsl import parse_rsl
from webdata_nb.service.crawl.rights.signal import (
    PageRights,
    RightsSignal,
    combine,
    content_signal,
    content_usage,
    parse_dictionary,
    robots_directives,
)
from webdata_nb.service.crawl.robots_rules import RobotsRules

SITE: Final = "https://site.example"
NOW: Final = "2026-01-01T00:00:00+00:00"
Case = dict[str, Any]
CASES: Final[list[Case]] = [
    json.loads(line)
    for line in Path(__file__).with_name("cases.jsonl").read_text("utf-8").splitlines()
]


def statements(signals: list[RightsSignal]) -> dict[str, str]:
    """Return what signals say together, in the order of the purposes."""
    verdicts = PageRights(tuple(signals)).verdicts
    return {purpose: verdict for purpose, verdict in verdicts.items() if verdict != "unknown"}


def of_robots(case: Case) -> list[RightsSignal]:
    rules = run_to_completion(RobotsRules.parse_in_steps(case["text"], case["token"]))
    url = SITE + case["path"]
    usage = RobotsUsage.of_file(f"{SITE}/robots.txt", NOW, case["text"], "", rules)
    return list(usage.signals(url, run_to_completion(rules.match_in_steps(url))))


def of_page(case: Case) -> list[RightsSignal]:
    body = f"<html><head><title>x</title>{case['html']}<p>Text.</p></html>".encode()
    source = FetchedResponse(
        SITE, f"{SITE}/page", 200, "text/html; charset=utf-8", body, (), datetime.now(UTC)
    )
    options = ConversionOptions(facts=frozenset({"rights"}))
    declarations = scrape(source, options).declarations
    page = PageSignals(f"{SITE}/page", NOW, case["token"])
    return [*page.of_headers(case["headers"]), *page.of_declarations(declarations)]


def of_tdm_file(case: Case) -> list[RightsSignal]:
    return parse_tdm_file(case["body"].encode()).signals(SITE + case["path"], SITE, NOW)


def of_rsl(case: Case) -> list[RightsSignal]:
    return parse_rsl(case["body"].encode()).signals(SITE + case["path"], SITE, "", NOW)


def of_link_header(case: Case) -> list[list[str]]:
    return [
        [link.target, " ".join(sorted(link.relations)), link.media_type]
        for link in parse_link_header(case["value"])
    ]


READERS: Final[dict[str, Callable[[Case], object]]] = {
    "dictionary": lambda case: parse_dictionary(case["text"]),
    "content-usage": lambda case: dict(content_usage(case["value"])),
    "content-signal": lambda case: dict(content_signal(case["value"])),
    "robots-directives": lambda case: dict(robots_directives(case["value"], case["token"])),
    "robots": lambda case: statements(of_robots(case)),
    "tdm-file": lambda case: statements(of_tdm_file(case)),
    "rsl": lambda case: statements(of_rsl(case)),
    "page": lambda case: statements(of_page(case)),
    "link-header": of_link_header,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['reader']}: {case['name']}")
def test_a_reader_says_what_its_document_defines(case: Case) -> None:
    assert READERS[case["reader"]](case) == case["expected"]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.get("lines")], ids=lambda case: case["name"]
)
def test_a_signal_of_robots_txt_quotes_its_line(case: Case) -> None:
    lines = (
        case["text"].removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    )
    found = {signal.line_number: signal.line for signal in of_robots(case)}
    found.pop(None, None)
    assert found == {number: lines[number - 1].strip() for number in case["lines"]}


def test_there_are_150_cases_of_our_own_and_examples_of_each_document() -> None:
    origins = [case["origin"].split(",")[0] for case in CASES]
    assert origins.count("own") >= 150
    assert {
        "draft-ietf-aipref-vocab-08",
        "draft-ietf-aipref-attach-05",
        "contentsignals.org",
        "RSL 1.0",
        "TDMRep 2024-05-10",
    } <= set(origins)


def test_the_most_restrictive_statement_counts() -> None:
    yes, no = {"search": "allowed"}, {"search": "refused"}
    for statements in ([yes, no], [no, yes], [yes, yes, no, yes]):
        assert combine(statements) == no  # type: ignore[arg-type]
    assert combine([{}, yes]) == yes  # type: ignore[list-item]
    assert PageRights().verdicts == dict.fromkeys(
        ("search", "ai-input", "ai-train", "research"), "unknown"
    )
