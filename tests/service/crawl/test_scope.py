"""Which URLs belong to a crawl."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from webdata_nb.service.crawl.scope import Glob, Scope, site_of


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
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert Glob(pattern).matches(path) is matches


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
def test_sites(one: str, other: str, same: bool) -> None:
    assert (site_of(one) == site_of(other)) is same


def test_verdicts() -> None:
    scope = Scope(
        frozenset({"x.test"}), include=("/docs/**", "/q?page=*"), exclude=("/docs/old/**",)
    )
    assert scope.verdict("http://x.test/docs/a") is None
    assert scope.verdict("http://x.test/docs/a?b=c") is None
    assert scope.verdict("http://x.test/docs/old/a") == "filtered"
    assert scope.verdict("http://x.test/blog") == "filtered"
    assert scope.verdict("http://x.test/q?page=2") is None
    assert scope.verdict("http://x.test/q") == "filtered"
    assert scope.verdict("http://y.test/docs/a") == "scope"


def test_external_links_are_followed_only_where_allowed() -> None:
    assert Scope(frozenset({"x.test"}), external=True).verdict("http://y.test/") is None


def test_a_glob_of_many_stars_is_linear() -> None:
    steps = 0

    class Counted(str):
        __slots__ = ()

        def __iter__(self) -> Iterator[str]:
            nonlocal steps
            for letter in super().__iter__():
                steps += 1
                yield letter

    assert not Glob("/" + "*a" * 50 + "/b").matches(Counted("/" + "a" * 2000))
    assert steps <= 2001
