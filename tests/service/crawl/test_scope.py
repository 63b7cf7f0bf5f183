"""Which URLs belong to a crawl."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_deadline import cpu_deadline
from webdata_nb.contract import limits
from webdata_nb.contract.url_keys import site_of
from webdata_nb.service.crawl.scope import CrawlScope, GlobSet


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/docs/**", "/docs/a/b.html", True),
        ("/docs/**", "/docs/", True),
        ("/docs/**", "/docs", True),
        ("/docs/**", "/docsx/a", False),
        ("/docs/*", "/docs/a", True),
        ("/docs/*", "/docs/a/b", False),
        ("/docs/*.html", "/docs/a.html", True),
        ("/docs/*.html", "/docs/aXhtml", False),
        ("*.pdf", "/deep/er/x.pdf", True),
        ("*.pdf", "/x.pdf", True),
        ("blog/*", "/en/blog/post", True),
        ("/**/old/*", "/a/b/old/c", True),
        ("**", "/anything/at/all", True),
        ("/a[1]", "/a[1]", True),
        ("/a.b", "/aXb", False),
        ("/a*", "/a", True),
        ("/a/***/b", "/a/x/y/b", True),
        ("/*/*", "/a/", True),
        ("/*/*", "/a/b/c", False),
        ("/a**z", "/a/b/z", True),
    ],
)
def test_glob_matching(pattern: str, path: str, matches: bool) -> None:
    assert GlobSet([pattern]).matches(path) is matches


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://example.com/", "https://example.com/x", True),
        ("https://www.example.com/", "https://example.com/", True),
        ("https://docs.example.com/", "https://example.com/", False),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8001/", False),
        ("http://127.0.0.1:8000/", "http://localhost:8000/", False),
    ],
)
def test_site_of_url(one: str, other: str, same: bool) -> None:
    assert (site_of(one) == site_of(other)) is same


def test_exclusion_reasons() -> None:
    scope = CrawlScope(
        frozenset({"x.test"}), include=("/docs/**", "/q?page=*"), exclude=("/docs/old/**",)
    )
    assert scope.exclusion_reason("http://x.test/docs/a") is None
    assert scope.exclusion_reason("http://x.test/docs/a?b=c") is None
    assert scope.exclusion_reason("http://x.test/docs/old/a") == "filtered"
    assert scope.exclusion_reason("http://x.test/blog") == "filtered"
    assert scope.exclusion_reason("http://x.test/q?page=2") is None
    assert scope.exclusion_reason("http://x.test/q") == "filtered"
    assert scope.exclusion_reason("http://y.test/docs/a") == "scope"


def test_external_links_are_followed_only_where_allowed() -> None:
    assert (
        CrawlScope(frozenset({"x.test"}), external=True).exclusion_reason("http://y.test/") is None
    )


def segments_match(pattern: str, path: str) -> bool:
    """Match by trying everything: the meaning of a pattern, at any price."""
    if not pattern:
        return not path
    if pattern.startswith("**"):
        rest = pattern[2:]
        return any(segments_match(rest, path[at:]) for at in range(len(path) + 1))
    if pattern.startswith("*"):
        most = path.find("/") if "/" in path else len(path)
        return any(segments_match(pattern[1:], path[at:]) for at in range(most + 1))
    return path[:1] == pattern[0] and segments_match(pattern[1:], path[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "/", ".", "*", "**"]), max_size=6).map("".join),
    st.text("ab/.", max_size=8),
)
def test_globs_match_like_brute_force(pattern: str, path: str) -> None:
    pattern, path = "/" + pattern, "/" + path
    plain = re.sub(r"\*{2,}", "**", pattern)
    expected = segments_match(plain, path)
    if plain.endswith("/**"):
        expected = expected or path == plain[:-3] or segments_match(plain[:-3], path)
    assert GlobSet([pattern]).matches(path) is expected


def test_long_patterns_match_in_linear_time() -> None:
    """20 patterns of the most wildcards, 20,000 links of 1,900 characters."""
    patterns = ["/" + "a*" * limits.PATTERN_WILDCARDS + str(n) for n in range(20)]
    globs = GlobSet(patterns)
    # 1 s; a matcher that tries every split takes 100 s.
    with cpu_deadline():
        assert not any(globs.matches("/" + "a" * 1899 + "x") for _ in range(20_000))
