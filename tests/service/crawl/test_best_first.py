"""Best-first order: link weights, anchor grades and URL priors."""

from __future__ import annotations

import pytest

from tests.service.crawl.simulated_crawl import simulate_crawl
from webdata_nb.service.crawl.frontier import BestFirst, anchor_grade, url_prior
from webdata_nb.service.crawl.journal import CrawlResult


def page(*links: str, nofollow_links: tuple[int, ...] = ()) -> CrawlResult:
    urls = tuple(f"http://x.test{link}" for link in links)
    grades = "2" * len(urls)
    return CrawlResult("page", "", links=urls, anchor_grades=grades, nofollow_links=nofollow_links)


def test_page_with_most_inlinks_is_first() -> None:
    site = {
        "http://x.test/": page("/a", "/b", "/c", "/hub"),
        "http://x.test/a": page("/hub", "/late"),
        **{f"http://x.test/{name}": page("/hub") for name in ("b", "c", "late")},
        "http://x.test/hub": page(),
        **{f"http://x.test/{n}": page() for n in range(20)},
    }
    site["http://x.test/"] = page("/a", "/b", "/c", *[f"/{n}" for n in range(20)], "/hub")
    done = simulate_crawl(site, "http://x.test/", frontier=BestFirst)
    # Everything is equal in the first round; the hub leads the second, though linked last.
    assert done.rows[1:4] == [f"http://x.test/{name}" for name in "abc"]
    assert done.rows[9] == "http://x.test/hub"
    assert done.scores[0] == 1.0
    assert done.scores[9] is not None
    assert done.scores[10] is not None
    assert done.scores[9] > done.scores[10] > 0


def test_nofollow_links_have_no_weight() -> None:
    plain = [f"/{n}" for n in range(10)]
    site = {"http://x.test/": page("/ad", *plain, nofollow_links=(0,))}
    done = simulate_crawl(site, "http://x.test/", frontier=BestFirst)
    assert done.rows[-1] == "http://x.test/ad"
    assert done.scores[-1] == 0


@pytest.mark.parametrize(
    ("anchor", "digit"),
    [("", "0"), ("  ", "0"), ("Next", "1"), ("»", "1"), ("12", "1"), ("Wool hats", "2"),
     ("Next steps", "2"), ("帽子", "2")],
)  # fmt: skip
def test_anchor_grades(anchor: str, digit: str) -> None:
    assert anchor_grade(anchor) == digit


def test_url_prior_prefers_short_paths_without_query() -> None:
    order = ("http://x.test/a", "http://x.test/a/b/c", "http://x.test/a/b/c/d", "http://x.test/a?b")
    values = [url_prior(url) for url in order]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1.0
