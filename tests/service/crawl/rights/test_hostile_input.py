"""Readers of signals never raise, and read no more than their bounds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.steps import run_to_completion
from webdata_nb.page.urls import parse_link_header
from webdata_nb.service.crawl.rights import page_signals, rsl
from webdata_nb.service.crawl.rights.page_signals import PageSignals, RobotsUsage
from webdata_nb.service.crawl.rights.signal import (
    MAX_LISTED,
    PageRights,
    RightsSignal,
    content_signal,
    content_usage,
    parse_dictionary,
    refuses,
    robots_directives,
)
from webdata_nb.service.crawl.robots_rules import MAX_USAGE_LINES, RobotsRules

URL: Final = "https://site.example/page"
NOW: Final = "2026-01-01T00:00:00+00:00"
CASES: Final = Path(__file__).with_name("cases.jsonl").read_text("utf-8")


@pytest.mark.parametrize("name", ["UTF-2", "base64", "big5", "idna", "cp037"])
def test_licence_in_an_unknown_encoding_has_a_problem(name: str) -> None:
    body = f'<?xml version="1.0" encoding="{name}"?><rsl/>'.encode()
    assert rsl.parse_rsl(body).problem


def test_licences_of_contents_elsewhere_in_a_document_are_not_read() -> None:
    content = '<content url="/*"><license><prohibits>all</prohibits></license></content>'
    body = f'<rsl xmlns="https://rslstandard.org/rsl"><other>{content}</other></rsl>'
    assert rsl.parse_rsl(body.encode()) == rsl.RslDocument()
    before = '<content url="/a"/>'
    [found] = rsl.parse_rsl(body.replace("<other>", f"{before}<other>").encode()).contents
    assert found.licenses == []


def read_robots(text: str) -> PageRights:
    rules = run_to_completion(RobotsRules.parse_in_steps(text, "ExampleBot"))
    usage = RobotsUsage.of_file(URL, NOW, text, "", rules)
    rule = run_to_completion(rules.match_in_steps(URL))
    return PageRights(tuple(usage.signals(URL, rule)))


def read_headers(text: str) -> PageRights:
    names = ("content-usage", "content-signal", "x-robots-tag", "tdm-reservation", "link")
    headers = [(name, text) for name in names]
    page = PageSignals(URL, NOW, "ExampleBot")
    list(page.licenses(headers, ()))
    return PageRights(tuple(page.of_headers(headers)))


READERS: Final[dict[str, Callable[[str], object]]] = {
    "dictionary": parse_dictionary,
    "content-usage": content_usage,
    "content-signal": content_signal,
    "robots-directives": lambda text: robots_directives(text, "ExampleBot"),
    "robots": read_robots,
    "headers": read_headers,
    "link-header": parse_link_header,
    "rsl": lambda text: rsl.parse_rsl(text.encode()).signals(URL, URL, "", NOW),
    "tdm-file": lambda text: page_signals.parse_tdm_file(text.encode()).signals(URL, URL, NOW),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_input_never_raises(name: str) -> None:
    rng = random.Random(name)
    texts = [
        value
        for line in CASES.splitlines()
        for value in json.loads(line).values()
        if isinstance(value, str)
    ]
    alphabet = "<>\"'=;,:()@%?/*\\ \t\r\n\0aAzZ09é\ufeff\U0001f600"
    for _ in range(3000):
        text = list(rng.choice(texts) + rng.choice(texts))
        for _ in range(rng.randrange(6)):
            place = rng.randrange(len(text) + 1)
            text[place : place + rng.randrange(3)] = rng.choice(alphabet)
        READERS[name]("".join(text))


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "piece", ["<", "(", '"', "\\", ";a", "a;", "a=(", ",", "/", "*", "<a>", "[", "\r", "a=y,"]
)
def test_long_input_never_raises(name: str, piece: str) -> None:
    READERS[name](piece * (300_000 // len(piece)))


def test_too_many_lines_about_usage_refuse_everything() -> None:
    lines = [f"Content-Usage: /{number}/ train-ai=y\n" for number in range(MAX_USAGE_LINES + 1)]
    at_limit = read_robots("User-agent: *\n" + "".join(lines[:-1]))
    assert set(at_limit.verdicts.values()) == {"unknown"}
    beyond = read_robots("User-agent: *\n" + "".join(lines))
    assert set(beyond.verdicts.values()) == {"refused"}
    assert beyond.signals[1].problem == "it has more than 1,000 lines about usage"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<rsl>" + b" " * rsl.MAX_BYTES, "it is larger than 512 KiB"),
        (b'<rsl xmlns="https://rslstandard.org/rsl">' + b"<a>" * 40, "it nests deeper than 32"),
        (b"<rsl/>", "it is no RSL licence"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><rsl/>', "it declares entities"),
        (
            b'<rsl xmlns="https://rslstandard.org/rsl">' + b"<content/>" * 1001 + b"</rsl>",
            "it has more than 1,000 contents",
        ),
        (
            b'<rsl xmlns="https://rslstandard.org/rsl"><content><license><permits>'
            + b"ai-train " * 200
            + b"</permits></license></content></rsl>",
            "a list has more than 1,000 characters",
        ),
        (
            b'<rsl xmlns="https://rslstandard.org/rsl"><content url="/'
            + b"a" * 1000
            + b'/x"/></rsl>',
            "an attribute has more than 1,000 characters",
        ),
        (b"", "it is no valid XML (no element found, line 1)"),
    ],
)
def test_a_licence_beyond_its_bounds_says_why(body: bytes, problem: str) -> None:
    [signal] = rsl.parse_rsl(body).signals(URL, "https://site.example/l.xml", "License: l", NOW)
    assert signal.problem.startswith(problem)
    assert signal.says == {}
    assert signal.line == "License: l"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[" + b" " * page_signals.MAX_TDM_BYTES + b"]", "it is larger than 256 KiB"),
        (b"[" + b"1," * 1000 + b"1]", "it has more than 1,000 rules"),
        (b"{}", "it is no list of rules"),
        (b"<html>", "it is no JSON"),
    ],
)
def test_a_tdm_file_beyond_its_bounds_says_why(body: bytes, problem: str) -> None:
    [signal] = page_signals.parse_tdm_file(body).signals(URL, URL, NOW)
    assert signal.problem == problem


def test_a_path_that_begins_with_two_slashes_is_no_rule_for_the_whole_site() -> None:
    rights = read_robots("User-agent: *\nContent-Usage: //page train-ai=y\n")
    assert rights.verdicts["ai-train"] == "unknown"
    rules = [
        {"location": "//page", "tdm-reservation": 1},
        {"location": "/", "tdm-reservation": 0},
    ]
    [signal] = page_signals.parse_tdm_file(json.dumps(rules).encode()).signals(
        "https://site.example//page", URL, NOW
    )
    assert signal.says["research"] == "refused"


def test_all_lines_of_a_header_count() -> None:
    headers = [("X-Robots-Tag", f"max-snippet: {number}") for number in range(100)]
    page = PageSignals(URL, NOW, "ExampleBot")
    signals = page.of_headers([*headers, ("X-Robots-Tag", "noai")])
    assert PageRights(tuple(signals)).verdicts["ai-train"] == "refused"


def test_a_row_lists_what_says_something_first_and_counts_all() -> None:
    silent = [RightsSignal("license", URL, f"line {number}", NOW) for number in range(MAX_LISTED)]
    refusing = RightsSignal("tdm", URL, "x" * 1000, NOW, refuses("research"))
    value = PageRights((*silent, refusing)).as_json()
    assert len(value["signals"]) == MAX_LISTED
    assert value["signals"][0]["line"] == "x" * 300
    assert value["verdicts"]["research"] == "refused"
