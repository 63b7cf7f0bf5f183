"""What counts as changed, added and removed."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tests.sites.crawl_model import ModelSite, version, visit
from webdata_nb.toolkit.sites.comparison import Comparison, KnownSite, PageChange, compare
from webdata_nb.toolkit.sites.watched_pages import PageVersion, SiteVisit

Change = tuple[str, str, str | None, str | None, str | None]

NOT_FOUND = ("failed:http_404", "HTTP 404 Not Found")
HOME, A, B = version("/", "Home"), version("/a", "A"), version("/b", "B")


def shown(changes: tuple[PageChange, ...]) -> list[Change]:
    return [(c.change, c.url, c.field, c.old, c.new) for c in changes]


def follow(*visits: SiteVisit) -> list[list[Change]]:
    """Return the changes of each crawl after the first."""
    known = KnownSite.of_first(visits[0])
    found: list[list[Change]] = []
    for each in visits[1:]:
        comparison = compare(known, each)
        known = comparison.known
        found.append(shown(comparison.changes))
    return found


def one(first: SiteVisit, second: SiteVisit) -> Comparison:
    return compare(KnownSite.of_first(first), second)


def test_changes_have_both_values_visits_and_crawls() -> None:
    [change] = one(visit(1, HOME, A), visit(2, HOME, version("/a", "A!"))).changes
    assert (change.change, change.url, change.field) == ("changed", "/a", "title")
    assert (change.old, change.new) == ("A", "A!")
    assert (change.old_at.day, change.new_at.day) == (2, 3)
    assert (change.old_job, change.new_job) == ("j1", "j2")
    assert change.old_hash != change.new_hash
    assert change.evidence is None


def test_long_texts_have_their_changed_lines_as_evidence() -> None:
    old = version("/a", "A", markdown="# A\n\nIt costs 29 EUR.\n\nThe end.")
    new = version("/a", "A", markdown="# A\n\nIt costs 24 EUR.\n\nThe end.")
    [change] = one(visit(1, old), visit(2, new)).changes
    assert change.field == "markdown"
    assert change.evidence == "- It costs 29 EUR.\n+ It costs 24 EUR."


def test_a_field_that_was_not_watched_before_has_not_changed() -> None:
    assert follow(visit(1, A), visit(2, version("/a", "A", description="new"))) == [[]]


def test_the_same_bytes_are_no_change_even_if_they_are_read_differently() -> None:
    before, after = visit(1, version("/a", "A")), visit(2, version("/a", "A, read otherwise"))
    same = SiteVisit(
        "j2",
        after.at,
        tuple(
            type(page)(
                page.url,
                page.final_url,
                before.pages[0].content_hash,
                page.fetched_at,
                "j2",
                page.values,
            )
            for page in after.pages
        ),
        {},
        is_whole=True,
    )
    assert follow(before, same) == [[]]


@pytest.mark.parametrize(
    "outcome", ["failed:timeout", "failed:http_500", "failed:http_403", "robots", "depth", "trap"]
)
def test_a_page_that_was_not_read_for_once_is_neither_removed_nor_new(outcome: str) -> None:
    unread_visit = visit(2, HOME, others={"/a": outcome})
    assert follow(visit(1, HOME, A), unread_visit, visit(3, HOME, A)) == [[], []]
    assert follow(visit(1, HOME, A), unread_visit, visit(3, HOME, version("/a", "A!"))) == [
        [],
        [("changed", "/a", "title", "A", "A!")],
    ]
    counts = one(visit(1, HOME, A, B), unread_visit)
    assert (counts.kept, counts.sees_unlinked, counts.changes) == (2, False, ())


def test_a_missing_page_is_removed_and_new_when_it_is_back() -> None:
    found = follow(
        visit(1, HOME, A),
        visit(2, HOME, others={"/a": NOT_FOUND}),
        visit(3, HOME, others={"/a": NOT_FOUND}),
        visit(4, HOME, A),
    )
    assert found == [
        [("removed", "/a", "title", "A", None)],
        [],
        [("added", "/a", "title", None, "A")],
    ]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (NOT_FOUND, "HTTP 404 Not Found"),
        (("failed:http_410", "HTTP 410 Gone"), "HTTP 410 Gone"),
        (("redirect", "/b"), "redirects to /b"),
        (("scope", "redirects to https://other.test/"), "redirects to https://other.test/"),
        (None, "no page of the crawl links to it"),
    ],
)
def test_a_removed_page_has_the_reason(seen: tuple[str, str] | None, reason: str) -> None:
    others = {} if seen is None else {"/a": seen}
    [change] = one(visit(1, HOME, A, B), visit(2, HOME, B, others=others)).changes
    assert (change.change, change.url, change.evidence) == ("removed", "/a", reason)
    assert (change.new_hash, change.new_job) == (None, "j2")


def test_a_page_without_a_link_is_kept_where_a_page_that_may_link_to_it_was_not_read() -> None:
    unseen = visit(2, HOME, others={"/a": "failed:timeout"})
    gone = visit(3, HOME, A)
    assert follow(visit(1, HOME, A, B), unseen, gone) == [
        [],
        [("removed", "/b", "title", "B", None)],
    ]


def test_a_page_that_always_fails_hides_nothing() -> None:
    broken = {"/broken": "failed:http_403"}
    new = version("/new", "New")
    found = follow(visit(1, HOME, A, others=broken), visit(2, HOME, new, others=broken))
    assert found == [
        [("added", "/new", "title", None, "New"), ("removed", "/a", "title", "A", None)]
    ]


def test_a_crawl_that_ends_at_its_limit_knows_neither_new_nor_unlinked_pages() -> None:
    cut = visit(1, HOME, A, others={"/b": "over_max_pages"}, whole=False)
    moved = visit(2, HOME, B, others={"/a": "over_max_pages"}, whole=False)
    whole = visit(3, HOME, A, B, version("/c", "C"))
    assert follow(cut, moved, whole) == [[], []]
    again = visit(4, HOME, A, B, version("/c", "C"), version("/d", "D"))
    assert follow(cut, moved, whole, again)[-1] == [("added", "/d", "title", None, "D")]


def test_what_lies_behind_a_page_that_is_read_for_the_first_time_is_not_new() -> None:
    hidden = visit(1, HOME, others={"/a": "failed:timeout"})
    comparison = one(hidden, visit(2, HOME, A, B))
    assert comparison.changes == ()
    assert comparison.first_read == 2


def test_a_new_page_that_fails_at_first_is_new_when_it_is_read() -> None:
    found = follow(
        visit(1, HOME), visit(2, HOME, others={"/a": "failed:timeout"}), visit(3, HOME, A, B)
    )
    assert found == [
        [],
        [("added", "/a", "title", None, "A"), ("added", "/b", "title", None, "B")],
    ]


def test_the_order_of_links_decides_which_address_is_the_row() -> None:
    """A redirect, a copy and a variant under either address are no change."""
    target = version("/a", "B", final="/b")
    pairs = [
        (visit(1, HOME, B, others={"/a": ("redirect", "/b")}), visit(2, HOME, target)),
        (
            visit(1, HOME, B, others={"/a": ("duplicate", "/b")}),
            visit(2, HOME, version("/a", "B"), others={"/b": ("duplicate", "/a")}),
        ),
        (
            visit(1, HOME, B, others={"/a": ("canonical", "/b")}),
            visit(2, HOME, version("/a", "B?"), others={"/b": ("canonical", "/a")}),
        ),
    ]
    for first, second in pairs:
        assert follow(first, second, first, second, second) == [[], [], [], []]
        assert follow(second, first, second, first, first) == [[], [], [], []]


def test_a_redirect_with_a_session_id_is_no_change() -> None:
    visits = [visit(n, HOME, version("/a", "A", final=f"/a?sid={n}")) for n in range(1, 4)]
    assert follow(*visits) == [[], []]


def test_a_page_that_redirects_to_another_one_is_removed_in_either_order() -> None:
    first = visit(1, HOME, A, B)
    for second in (
        visit(2, HOME, version("/a", "B", final="/b")),
        visit(2, HOME, B, others={"/a": ("redirect", "/b")}),
    ):
        [change] = one(first, second).changes
        assert (change.change, change.url, change.evidence) == ("removed", "/a", "redirects to /b")


def test_a_page_that_becomes_a_copy_of_another_one_has_its_values() -> None:
    copy = visit(2, HOME, A, others={"/b": ("duplicate", "/a")})
    assert follow(visit(1, HOME, A, B), copy, copy, visit(4, HOME, A, B)) == [
        [("changed", "/b", "title", "B", "A")],
        [],
        [("changed", "/b", "title", "A", "B")],
    ]


def test_a_page_without_values_is_a_row_without_a_field() -> None:
    empty = version("/a", None)
    assert follow(visit(1, HOME), visit(2, HOME, empty), visit(3, HOME)) == [
        [("added", "/a", None, None, None)],
        [("removed", "/a", None, None, None)],
    ]


def test_nothing_but_failures_is_no_change() -> None:
    down = visit(2, others={"/": "failed:http_503"})
    assert follow(visit(1, HOME, A), down, visit(3, HOME, A)) == [[], []]


def test_a_new_page_that_fails_may_have_the_links_of_others() -> None:
    """A page that moved below a new one is not removed while that one fails for once."""
    moved = visit(2, HOME, others={"/new": "failed:timeout"})
    new = version("/new", "New")
    assert follow(visit(1, HOME, A), moved, visit(3, HOME, new, A)) == [
        [],
        [("added", "/new", "title", None, "New")],
    ]
    for_good = visit(3, HOME, others={"/new": "failed:timeout"})
    assert follow(visit(1, HOME, A), moved, for_good)[1] == [("removed", "/a", "title", "A", None)]


URLS = ["/", *(f"/{number}" for number in range(24))]


def random_site(chance: random.Random) -> ModelSite:
    links = {url: chance.sample(URLS, 2) for url in URLS}
    return ModelSite(links, {url: f"{url} 0" for url in ["/", *chance.sample(URLS, 18)]})


def change_site(site: ModelSite, chance: random.Random, number: int) -> None:
    url = chance.choice(URLS[1:])
    match chance.randrange(3):
        case 0:
            site.texts.pop(url, None)
        case 1:
            site.texts[url] = f"{url} {number}"
        case _:
            site.links[chance.choice(URLS)] = chance.sample(URLS, 2)


def titles(pages: Iterable[PageVersion]) -> dict[str, str | None]:
    return {page.url: page.values["title"] for page in pages}


@pytest.mark.parametrize("seed", range(20))
def test_random_sites_that_are_read_as_a_whole(seed: int) -> None:
    """The changes are the difference of the crawls."""
    chance = random.Random(seed)
    site = random_site(chance)
    before = site.crawl(0, 100)
    known = KnownSite.of_first(before)
    for number in range(1, 15):
        change_site(site, chance, number)
        crawl = site.crawl(number, 100)
        old, new = titles(before.pages), titles(crawl.pages)
        differing = {url for url in old.keys() | new.keys() if old.get(url) != new.get(url)}
        comparison = compare(known, crawl)
        found = {(change.url, change.old, change.new) for change in comparison.changes}
        assert found == {(url, old.get(url), new.get(url)) for url in differing}
        known, before = comparison.known, crawl


@pytest.mark.parametrize("seed", range(40))
def test_random_sites_with_failures_and_limits(seed: int) -> None:
    """Every change is true, and no changed value is lost or repeated."""
    chance = random.Random(seed)
    site = random_site(chance)
    limits = [100, 100, 100, 6] if seed % 2 else [100]
    site.failing = set(chance.sample(URLS, 4))
    first = site.crawl(0, chance.choice(limits))
    known, texts = KnownSite.of_first(first), titles(first.pages)
    always = site.reachable(texts)
    for number in range(1, 20):
        change_site(site, chance, number)
        site.failing = set(chance.sample(URLS, chance.choice([0, 0, 1, 4])))
        crawl = site.crawl(number, chance.choice(limits))
        reachable = site.reachable({*texts, *titles(crawl.pages)})
        always &= reachable
        comparison = compare(known, crawl)
        known = comparison.known
        for change in comparison.changes:
            if change.change == "added":
                assert change.url not in always
                assert change.url not in texts
                texts[change.url] = change.new
            elif change.change == "removed":
                assert change.url not in reachable
                assert texts.pop(change.url) == change.old
            else:
                assert texts[change.url] == change.old != change.new
                texts[change.url] = change.new
        # Pages that are read for the first time and are no news are known all the same.
        texts = titles(crawl.pages) | texts
        assert texts == {url: page.values["title"] for url, page in known.pages.items()}
        assert titles(crawl.pages).items() <= texts.items()
