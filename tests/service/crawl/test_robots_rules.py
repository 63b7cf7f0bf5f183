"""Parsing and matching robots.txt: own vectors, properties, and the vectors of Google's parser."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_deadline import cpu_deadline
from tests.requirements import require
from tests.steps import run_to_completion
from webdata_nb.contract import fields
from webdata_nb.service.crawl.robots_rules import (
    LINES_PER_STEP,
    MAX_SITEMAPS,
    MAX_WILDCARD_CHARACTERS,
    MAX_WILDCARDS,
    RULES_PER_STEP,
    RobotsRule,
    RobotsRules,
    product_token,
)
from webdata_nb.service.settings import USER_AGENT

SITE = "http://site.test"


def parse(robots: str, token: str) -> RobotsRules:
    return run_to_completion(RobotsRules.parse_in_steps(robots, token))


def is_allowed(robots: str, path: str, token: str = "webdata_nb", site: str = SITE) -> bool:
    return run_to_completion(parse(robots, token).allows_in_steps(site + path))


def test_vectors_of_googles_parser() -> None:
    corpora = require("corpora")
    vectors: list[Any] = json.loads((corpora / "robots/google_rfc9309_vectors.json").read_text())
    wrong = [
        vector
        for vector in vectors
        if is_allowed(vector["robots"], vector["url"], vector["agent"], site="")
        != vector["allowed"]
    ]
    assert wrong == []
    assert len(vectors) == 145


@pytest.mark.parametrize(
    ("robots", "path", "expected"),
    [
        ("", "/", True),
        ("User-agent: *\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: other\nDisallow: /", "/x", True),
        ("User-agent: WebData_NB\nDisallow: /", "/x", False),
        ("User-agent: webdata_nb/1.0 bot\nDisallow: /", "/x", False),
        ("User-agent: webdata\nDisallow: /", "/x", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: webdata_nb\nDisallow: /a", "/b", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: webdata_nb", "/b", True),
        ("User-agent: a\nUser-agent: webdata_nb\nDisallow: /", "/b", False),
        ("User-agent: webdata_nb\nSitemap: /s\nUser-agent: b\nDisallow: /", "/b", False),
        ("User-agent: webdata_nb\nDisallow: /a\nUser-agent: webdata_nb\nDisallow: /b", "/a", False),
        ("Disallow: /\nUser-agent: *", "/b", True),
        ("user-agent *\ndisallow /", "/b", False),
        ("User-agent: *\rDisallow: /", "/b", False),
        ("\ufeffUser-agent: *\nDisallow: /", "/b", False),
        ("User-agent: * # all\nDisallow: /p # private", "/p", False),
        ("User-agent: *\nDisallow: /p\nAllow: /p", "/p", True),
        ("User-agent: *\nDisallow: /p\nAllow: /page", "/page", True),
        ("User-agent: *\nAllow: /p\nDisallow: /page", "/page", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf?x", True),
        ("User-agent: *\nDisallow: /a$b", "/a$b", False),
        ("User-agent: *\nDisallow: /*?sort=", "/list?sort=up", False),
        ("User-agent: *\nDisallow: /\nAllow: /docs/index.html", "/docs/", True),
        ("User-agent: *\nDisallow: /\nAllow: /docs/index.html", "/docs/x", False),
        ("User-agent: *\nDisallow: /caf\u00e9", "/caf%C3%A9", False),
        ("User-agent: *\nDisallow: /caf%c3%a9", "/caf%C3%A9", False),
        # The characters of wildcards, escaped, are these characters of a path (RFC 9309, 2.2.3).
        ("User-agent: *\nDisallow: /a-%2A.html", "/a-*.html", False),
        ("User-agent: *\nDisallow: /a-%2a.html", "/a-%2A.html", False),
        ("User-agent: *\nDisallow: /a-%2A.html", "/a-%2a.html", False),
        ("User-agent: *\nDisallow: /a-%2A.html", "/a-b.html", True),
        ("User-agent: *\nDisallow: /a-*.html", "/a-%2A.html", False),
        ("User-agent: *\nDisallow: /a-%24", "/a-$", False),
        ("User-agent: *\nDisallow: /a-%24", "/a-$b", False),
        ("User-agent: *\nDisallow: /a-%24", "/a-%24b", False),
        ("User-agent: *\nDisallow: /a-%24", "/a-", True),
        ("User-agent: *\nDisallow: /a-$", "/a-$", True),
        ("User-agent: *\nDisallow: /a-$b", "/a-%24b", False),
        ("User-agent: *\nDisallow: /a-$b", "/a-$b", False),
        ("User-agent: *\nDisallow: /*%2A$", "/a*", False),
        ("User-agent: *\nDisallow: /*%2A$", "/ab", True),
        ("User-agent: *\nDisallow: /x?q=%24*", "/x?q=$1", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a-%2A", "/a-*", True),
        # Other escapes of one character, on either side.
        ("User-agent: *\nDisallow: /%7ejoe", "/~joe", False),
        ("User-agent: *\nDisallow: /~joe", "/%7Ejoe", False),
        ("User-agent: *\nDisallow: /my files", "/my%20files", False),
        ("User-agent: *\nDisallow: /my%20files", "/my%20files", False),
        ("User-agent: *\nDisallow: /a{1}|b", "/a%7B1%7D%7Cb", False),
        ("User-agent: *\nDisallow: /a%7b1%7D", "/a{1}", False),
        ("User-agent: *\nDisallow: /x?q='a'", "/x?q=%27a%27", False),
        # An escaped reserved character is another one than the character.
        ("User-agent: *\nDisallow: /a%2Fb", "/a/b", True),
        ("User-agent: *\nDisallow: /a%3Fb", "/a?b", True),
        ("User-agent: *\nDisallow: /a%zz", "/a%zz", False),
        ("User-agent: *\nDisalow: /x", "/x", False),
        ("User-agent: *\nNoindex: /x", "/x", True),
        ("<!DOCTYPE html><title>Oops</title>Disallow: /", "/x", True),
        ("\x00\x00User-agent\x00", "/x", True),
    ],
)
def test_own_vectors(*, robots: str, path: str, expected: bool) -> None:
    assert is_allowed(robots, path) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5", 5.0),
        ("0.5", 0.5),
        ("-1", None),
        ("nan", None),
        ("1e9", None),
        ("inf", None),
        ("", None),
    ],
)
def test_crawl_delay(value: str, expected: float | None) -> None:
    robots = f"User-agent: *\nDisallow: /x\nCrawl-delay: {value}"
    assert parse(robots, "us").delay_s == expected


def test_crawl_delay_applies_to_preceding_agents() -> None:
    robots = "User-agent: slow\nCrawl-delay: 9\n\nUser-agent: *\nDisallow: /x"
    assert parse(robots, "us").delay_s is None
    assert parse(robots, "slow").delay_s == 9.0


def test_sitemaps_are_independent_of_groups_and_bounded() -> None:
    robots = "Sitemap: /first\nUser-agent: a\nSitemap: /second\nSite-map: /first\n"
    assert parse(robots, "us").sitemaps == ("/first", "/second")
    many = "".join(f"Sitemap: /{i}\n" for i in range(10_000))
    assert len(parse(many, "us").sitemaps) == MAX_SITEMAPS


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        (USER_AGENT, "webdata_nb"),
        ("ExampleBot", "ExampleBot"),
        ("ExampleBot/2 (+http://example.org)", "ExampleBot"),
        ("Mozilla/5.0 (compatible; my-bot/1; +http://x)", "my-bot"),
    ],
)
def test_product_token(agent: str, token: str) -> None:
    assert product_token(agent) == token
    assert fields.user_agent(agent) == agent


@pytest.mark.parametrize("agent", ["", " x", "x\n", "1.0", "/1", "caf\u00e9", "x" * 501])
def test_user_agent_without_token_is_refused(agent: str) -> None:
    with pytest.raises(ValueError, match="must"):
        fields.user_agent(agent)


@given(st.text(alphabet="ab*$", max_size=12), st.text(alphabet="ab$", max_size=12))
def test_rules_match_like_regular_expressions(pattern: str, path: str) -> None:
    end = "$" if pattern.endswith("$") else ""
    body = pattern[:-1] if end else pattern
    pieces = ".*".join(map(re.escape, body.split("*")))
    # \Z: the path ends, in a language where $ would allow a newline behind.
    expected = re.match(pieces + (r"\Z" if end else ""), path) is not None
    assert RobotsRule(pattern, allow=False).matches(path) is expected


@given(st.text(max_size=300), st.text(max_size=30))
def test_parser_accepts_any_text(robots: str, path: str) -> None:
    is_allowed(robots, f"/{path}")


@given(st.lists(st.sampled_from(["Allow: /a", "Disallow: /ab", "Disallow: /a*", "Allow: /*b"])))
def test_rule_order_does_not_matter(lines: list[str]) -> None:
    forth, back = ("\n".join(["User-agent: *", *order]) for order in (lines, lines[::-1]))
    for path in ("/a", "/ab", "/b", "/xb"):
        assert is_allowed(forth, path) is is_allowed(back, path)


HOSTILE = "User-agent: *\n" + "".join(f"Disallow: /{'*a' * 900}{n}\n" for n in range(270))


def test_many_wildcards_match_in_short_time() -> None:
    rules = parse(HOSTILE, "x")
    # 0.1 s; a matcher that tries every split takes 100 s.
    with cpu_deadline():
        for n in range(3000):
            run_to_completion(rules.allows_in_steps(f"{SITE}/{'a' * 1900}{n}"))


def test_wildcards_beyond_bounds_disallow() -> None:
    many = "*a" * (MAX_WILDCARDS + 1)
    assert not is_allowed(f"User-agent: *\nDisallow: /p{many}", "/page")
    assert is_allowed(f"User-agent: *\nDisallow: /p{many}", "/other")
    assert not is_allowed(f"User-agent: *\nDisallow: /p\nAllow: /p{many}", "/p" + "a" * 200)
    fill = "".join(
        f"Disallow: /x{n:04}*{'y' * 95}\n" for n in range(MAX_WILDCARD_CHARACTERS // 100 + 1)
    )
    assert not is_allowed(f"User-agent: *\n{fill}Disallow: /q*r", "/q")
    assert is_allowed(f"User-agent: *\n{fill}Allow: /", "/other")


@given(st.lists(st.sampled_from(["/a", "/ab", "/a*b", "/*b$", "/a$", "/", "/b*", "*"]), max_size=6))
def test_longest_matching_pattern_wins(patterns: list[str]) -> None:
    lines = [f"{'Allow' if n % 2 else 'Disallow'}: {each}" for n, each in enumerate(patterns)]
    robots = "\n".join(["User-agent: *", *lines])
    for path in ("/", "/a", "/ab", "/b", "/axb", "/ba"):
        matching = [
            RobotsRule(each, allow=bool(n % 2)).precedence
            for n, each in enumerate(patterns)
            if RobotsRule(each, allow=bool(n % 2)).matches(path)
        ]
        assert is_allowed(robots, path) is max(matching, default=(0, True))[1]


def test_steps_are_short() -> None:
    """Between two steps there are so few lines or rules that the loop is soon free again."""
    file = "User-agent: *\n" + "".join(f"Allow: /{n}\n" for n in range(10_000))
    assert sum(1 for _ in RobotsRules.parse_in_steps(file, "x")) >= 10_000 / LINES_PER_STEP
    wild = "User-agent: *\n" + "".join(f"Allow: /{n}*\n" for n in range(1000))
    rules = parse(wild, "x")
    assert sum(1 for _ in rules.allows_in_steps(f"{SITE}/x")) >= 1000 / RULES_PER_STEP
