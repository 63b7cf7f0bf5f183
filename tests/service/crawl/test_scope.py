"""Which URLs belong to a crawl."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_deadline import cpu_deadline
from webdata_nb.contract import limits
from webdata_nb.contract.url_keys import folder_of, names_folder, site_of
from webdata_nb.service.crawl.scope import CrawlScope, GlobSet, folder_after_redirects


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


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://www.example.com/", "example.com/"),
        ("https://example.com/docs", "example.com/"),
        ("https://example.com/docs/", "example.com/docs/"),
        ("https://example.com/docs/index.html", "example.com/docs/"),
        ("http://example.com:8080/docs/a?next=/b/c", "example.com:8080/docs/"),
        ("https://example.com/caf%c3%a9/x", "example.com/caf%C3%A9/"),
    ],
)
def test_folder_of_url(url: str, expected: str) -> None:
    assert folder_of(url) == expected


@pytest.mark.parametrize(
    ("start", "final", "expected"),
    [
        # No redirect, or one inside of the folder.
        ("https://x.test/docs/", "https://x.test/docs/", "x.test/docs/"),
        ("https://x.test/docs/index.html", "https://x.test/docs/index.html", "x.test/docs/"),
        ("https://x.test/wiki/Main", "https://x.test/wiki/Main", "x.test/"),
        ("https://x.test/wiki/main", "https://x.test/wiki/Main", "x.test/"),
        ("https://x.test/docs/", "https://x.test/docs/5.1/start.html", "x.test/docs/"),
        ("https://x.test/docs/", "http://www.x.test/docs/", "x.test/docs/"),
        # A folder without its slash.
        ("https://x.test/docs", "https://x.test/docs/", "x.test/docs/"),
        ("https://x.test/docs", "https://x.test/docs/en/latest/", "x.test/docs/"),
        ("https://x.test/a/docs", "https://x.test/a/docs/", "x.test/a/docs/"),
        # The page has moved.
        ("https://x.test/library/", "https://x.test/3/library/", "x.test/3/library/"),
        ("https://x.test/docs/", "https://docs.x.test/", "docs.x.test/"),
        ("https://x.test/docs", "https://docs.x.test/en/", "docs.x.test/en/"),
        ("https://x.test/en/a.html", "https://docs.x.test/en/a.html", "docs.x.test/"),
        # To the front page, as removed pages do, or to a login.
        ("https://x.test/docs/", "https://x.test/", "x.test/docs/"),
        ("https://x.test/docs/", "https://x.test/login?next=/docs/", "x.test/docs/"),
    ],
)
def test_folder_after_redirects(start: str, final: str, expected: str) -> None:
    folder = folder_of(start) if names_folder(start) else f"{site_of(start)}/"
    assert folder_after_redirects(folder, start, final) == expected


def test_folder_is_of_one_site_and_ends_at_its_slash() -> None:
    scope = CrawlScope(frozenset({"x.test", "y.test"}), folder="x.test/docs/")
    assert scope.exclusion_reason("http://www.x.test/docs/a/b?c") is None
    assert scope.exclusion_reason("http://x.test/docs") is None
    assert scope.exclusion_reason("http://x.test/docs2/a") == "folder"
    assert scope.exclusion_reason("http://x.test/") == "folder"
    assert scope.exclusion_reason("http://y.test/docs/a") == "folder"
    assert scope.exclusion_reason("http://z.test/docs/a") == "scope"


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
