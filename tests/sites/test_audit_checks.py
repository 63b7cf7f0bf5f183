"""Findings that need TLS or a slow site, of pages with given facts; links and clusters."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from webdata_nb import audit_df, links_df
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.sites.audit import LinkGraph, clusters
from webdata_nb.toolkit.sites.pages import robots_directives

HEALTHY: dict[str, Any] = {
    "is_html": True,
    "titles": ["A title of a length that is usual"],
    "descriptions": [f"A description {'of a length that is usual ' * 3}"],
    "h1s": ["A heading"],
    "canonicals": ["https://a.test/"],
    "language": "en",
    "viewport": "width=device-width",
}
LINK = {"url": "https://b.test/", "text": "B", "rel": None, "internal": False}


def findings_of(
    declared: dict[str, Any] | None = None, **facts: Any
) -> list[tuple[str, str, str, int]]:
    page = {"links": [LINK], "audit": {**HEALTHY, **(declared or {})}, **facts}
    row = {
        "url": "https://a.test/",
        "success": True,
        "inlinks": 1,
        "indexable": True,
        "indexable_reason": None,
        "found_on": [],
        "page_facts": page,
    }
    found = audit_df(pd.DataFrame([row]))
    columns = ["issue", "url", "evidence", "count"]
    return list(found[columns].itertuples(index=False, name=None))


def pages_frame(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return rows of healthy pages with other texts, and the given values."""
    return pd.DataFrame([_row(number, **row) for number, row in enumerate(rows)])


def _row(number: int, /, *, facts: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    url = values.get("url", f"https://a.test/{number}")
    texts = {name: [f"{HEALTHY[name][0]} {url}"[-60:]] for name in ("titles", "descriptions")}
    own = {"h1s": [f"Heading of {url}"], "canonicals": [url], "descriptions": [url * 5]}
    declared = {**HEALTHY, **texts, **own}
    return {
        "url": url,
        "success": True,
        "inlinks": 1,
        "found_on": ["https://a.test/"],
        "indexable": True,
        "indexable_reason": None,
        "depth": 1,
        "cluster": None,
        "page_facts": {"links": [LINK], "audit": declared, **(facts or {})},
        **values,
    }


def without(name: str, *, url: str) -> dict[str, Any]:
    """Return a healthy page, but for a declaration."""
    row = _row(0, url=url)
    row["page_facts"]["audit"] = {**row["page_facts"]["audit"], name: []}
    return {"url": url, "page_facts": row["page_facts"]}


@pytest.mark.parametrize(
    ("wrong", "pages", "folded"),
    [(9, 9, False), (10, 10, True), (10, 11, True), (90, 100, False), (91, 100, True)],
)
def test_what_nine_pages_of_ten_have_is_one_finding_of_the_site(
    wrong: int, pages: int, *, folded: bool
) -> None:
    urls = [f"https://a.test/{number}" for number in range(pages)]
    rows = [without("h1s", url=url) for url in urls[:wrong]] + [{"url": u} for u in urls[wrong:]]
    df = pages_frame(*rows)
    each = audit_df(df, fold=False)
    assert each["url"].tolist() == urls[:wrong]
    assert set(each["scope"]) == {"page"}
    found = audit_df(df)
    if not folded:
        assert found.equals(each)
        return
    [site] = found.to_dict("records")
    assert (site["issue"], site["scope"], site["url"]) == ("missing_h1", "site", urls[0])
    assert (site["count"], site["reach"], site["found_on"]) == (wrong, wrong, urls[:wrong][:20])
    others = {0: "", 1: f" (not {urls[-1]})"}.get(pages - wrong, "")
    assert site["evidence"] == f"{wrong} of {pages} pages{others}"


def test_each_of_several_sites_is_judged_by_itself() -> None:
    rows = [without("h1s", url=f"https://a.test/{number}") for number in range(10)]
    found = audit_df(pages_frame(*rows, *({"url": f"https://b.test/{n}"} for n in range(90))))
    assert found[["scope", "count"]].to_numpy().tolist() == [["site", 10]]


def test_ten_findings_with_one_cause_are_one_of_their_group() -> None:
    logo = {"url": "https://a.test/", "text": "", "rel": None, "internal": True}
    other = {**logo, "url": "https://a.test/other"}
    template = [{"facts": {"links": [logo]}} for _ in range(10)]
    own = [{"facts": {"links": [other]}} for _ in range(3)]
    found = audit_df(pages_frame(*template, *own, *({} for _ in range(20))))
    assert found[["scope", "count", "evidence"]].to_numpy().tolist() == [
        ["group", 10, "10 pages: https://a.test/"],
        *([["page", 1, "https://a.test/other"]] * 3),
    ]


def test_a_folder_that_is_missing_is_one_finding() -> None:
    gone = {"success": False, "status_code": 404, "error": "HTTP 404 Not Found"}
    lost = [{"url": f"https://a.test/old/v1/{n}", "inlinks": 1 + n, **gone} for n in range(12)]
    kept = [
        {"url": f"https://a.test/new/{n}", "status_code": 200, "error": None} for n in range(30)
    ]
    alone = {"url": "https://a.test/new/x", "inlinks": 4, **gone}
    found = audit_df(pages_frame(*lost, *kept, alone))
    of = "12 of 12 URLs of the site below https://a.test/old/v1/: HTTP 404 Not Found"
    assert found[["scope", "count", "reach", "evidence"]].to_numpy().tolist() == [
        ["group", 12, 43, of],
        ["page", 4, 4, "HTTP 404 Not Found"],
    ]


def test_a_host_that_has_moved_is_one_finding() -> None:
    moved = [
        {"url": f"http://a.test/{n}", "facts": _moved(f"http://a.test/{n}", f"https://a.test/{n}")}
        for n in range(15)
    ]
    login = [
        {"url": f"https://a.test/m{n}", "facts": _moved(f"https://a.test/m{n}", LINK["url"])}
        for n in range(2)
    ]
    found = audit_df(pages_frame(*moved, *login, *({"url": f"https://a.test/x{n}"} for n in "abc")))
    assert found[["issue", "scope", "count", "evidence"]].to_numpy().tolist() == [
        ["redirected_link", "group", 15, "15 URLs of the site: http://a.test/ → https://a.test/"],
        *(
            ["redirected_link", "page", 1, f"https://a.test/m{n} (301) → https://b.test/"]
            for n in range(2)
        ),
    ]


def _moved(url: str, to: Any) -> dict[str, Any]:
    audit = {**HEALTHY, "canonicals": [url], "titles": [f"A title of a usual length: {url}"]}
    audit |= {"descriptions": [url * 5], "h1s": [f"Heading of {url}"]}
    hop = {"url": url, "status_code": 301}
    return {"final_url": to, "redirects": [hop], "audit": audit}


def test_a_missing_sitemap_is_one_finding() -> None:
    found = audit_df(pages_frame(*({"facts": {"in_sitemap": False}} for _ in range(12))))
    assert found["evidence"].tolist() == ["12 of 12 indexable pages: no sitemap lists any page"]


def test_findings_are_in_the_order_of_harm_and_reach() -> None:
    gone = {"success": False, "status_code": 404}
    df = pages_frame(
        *({"facts": {"in_sitemap": False}} for _ in range(47)),
        {"url": "https://a.test/gone", "inlinks": 1, **gone},
        {"url": "https://a.test/footer", "inlinks": 50, **gone},
        {"url": "https://a.test/slow", "facts": {"fetch_seconds": 3, "in_sitemap": False}},
    )
    found = audit_df(df)
    assert found[["issue", "priority", "reach"]].to_numpy().tolist() == [
        ["broken_page", 100, 50],
        ["broken_page", 67, 1],
        ["missing_from_sitemap", 50, 48],
        ["slow_page", 37, 1],
    ]
    assert audit_df(df.sample(frac=1, random_state=3))["priority"].tolist() == [100, 67, 50, 37]


def test_fold_is_a_flag() -> None:
    with pytest.raises(InvalidArgument, match="fold must be True or False; it is 'no'"):
        audit_df(pages_frame({}), fold="no")  # type: ignore[arg-type]


def test_rows_of_one_page_are_one_page() -> None:
    pages = pages_frame({}, {})
    assert audit_df(pd.concat([pages, pages])).empty


def test_each_crawl_numbers_its_own_clusters() -> None:
    starts = ["https://a.test/", "https://a.test/", "https://b.test/"]
    pages = pages_frame(*({"start_url": start, "cluster": 1} for start in starts))
    found = audit_df(pages)
    assert found["issue"].tolist() == ["near_duplicate"] * 2
    assert found["count"].tolist() == [2, 2]


def test_pages_of_a_crawl_without_a_sitemap_are_missing_from_none() -> None:
    pages = pages_frame({"facts": {"in_sitemap": True}}, {}, {"facts": {"in_sitemap": False}})
    found = audit_df(pages)
    assert found[["issue", "url"]].to_numpy().tolist() == [
        ["missing_from_sitemap", "https://a.test/2"]
    ]


def test_integers_with_missing_values_may_have_become_floats() -> None:
    pages = pages_frame(
        {"depth": 5, "inlinks": 3, "status_code": 200, "error": None, "url": LINK["url"]},
        {"page_facts": None, "depth": None, "inlinks": None, "status_code": None},
    )
    assert pages["depth"].dtype == pages["status_code"].dtype == "float64"
    assert audit_df(pages)["evidence"].tolist() == ["5 links from the start"]
    assert links_df(pages)["status_code"].tolist() == [200]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"page_facts": "{'links': []}"}, "column page_facts must have objects or JSON text"),
        ({"found_on": "['https://a.test/']"}, "column found_on must .* read_csv_export"),
        ({"page_facts": '{"links": [1]}'}, "page_facts of https://a.test/0 must be as crawl_df"),
        ({"page_facts": '{"links": null}'}, "page_facts of https://a.test/0 must be as crawl_df"),
    ],
)
def test_values_that_cannot_be_read_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        audit_df(pages_frame(values))


def test_json_text_is_read() -> None:
    pages = pages_frame({"inlinks": 1, "success": False, "error": "gone", "found_on": '["x"]'})
    [finding] = audit_df(pages).to_dict("records")
    assert (finding["issue"], finding["found_on"]) == ("unreachable_page", ["x"])


def test_a_healthy_page_has_no_findings() -> None:
    assert findings_of() == []


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        (None, []),
        (1.8, []),
        (1.9, [("slow_page", "https://a.test/", "1.9 s", 1)]),
    ],
)
def test_slow_pages(seconds: float | None, found: list[Any]) -> None:
    assert findings_of(fetch_seconds=seconds) == found


def test_mixed_content() -> None:
    insecure = ["http://b.test/1", "http://b.test/2"]
    assert findings_of({"insecure": insecure}) == [
        ("mixed_content", "https://a.test/", "http://b.test/1", 2)
    ]


@pytest.mark.parametrize(
    ("target", "canonical_issue", "language_issues"),
    [
        ({"result": "link_ok"}, "canonical_to_other_site", []),
        ({"result": "link_broken", "status_code": 404}, "canonical_to_error", ["to_error"]),
        ({"result": "link_unreachable"}, "canonical_to_error", ["to_error"]),
        ({"result": "failed", "reason": "http_404"}, "canonical_to_error", ["to_error"]),
        ({"result": "link_unchecked", "reason": "robots"}, "canonical_to_blocked", []),
        ({"result": "robots"}, "canonical_to_blocked", []),
        ({"result": "stopped", "reason": "scope"}, "canonical_to_redirect", []),
    ],
)
def test_declared_urls_without_a_row_are_judged_by_what_they_led_to(
    target: dict[str, Any], canonical_issue: str, language_issues: list[str]
) -> None:
    url = "https://b.test/x"
    targets = {f"{url}?": {**target, "final_url": url}}
    found = findings_of({"canonicals": [url]}, targets=targets)
    assert {issue for issue, *_ in found} == {canonical_issue, "canonicalized"}
    alternates = [{"language": "de", "url": url}, {"language": "en", "url": "https://a.test/"}]
    found = findings_of({"hreflang": alternates}, targets=targets)
    assert [issue for issue, *_ in found] == [f"hreflang_{issue}" for issue in language_issues]


@pytest.mark.parametrize(
    ("url", "is_elsewhere"),
    [
        ("https://www.a.test/x", False),
        ("http://a.test/x", False),
        ("https://a.test:8443/x", True),
        ("https://docs.a.test/x", True),
    ],
)
def test_canonical_urls_on_other_sites(url: str, *, is_elsewhere: bool) -> None:
    issues = {issue for issue, *_ in findings_of({"canonicals": [url]})}
    assert issues == {"canonicalized"} | ({"canonical_to_other_site"} if is_elsewhere else set())


@pytest.mark.parametrize(
    ("code", "is_valid"),
    [
        *((code, True) for code in ("de", "EN", "en-GB", "zh-Hant-TW", "x-default", "uk")),
        *((code, False) for code in ("jp", "xx", "en-UK", "en_GB", "deu", "es-419", "", "en-")),
    ],
)
def test_language_codes(code: str, *, is_valid: bool) -> None:
    found = findings_of({"hreflang": [{"language": code, "url": "https://a.test/"}]})
    invalid = [("hreflang_invalid_code", "https://a.test/", code.lower(), 1)]
    assert found == ([] if is_valid else invalid)


@pytest.mark.parametrize(
    ("values", "directives"),
    [
        (["NoIndex , follow"], {"noindex", "follow"}),
        (["none"], {"noindex", "nofollow"}),
        (["all"], {"index", "follow"}),
        (["googlebot: noindex", "nofollow"], {"nofollow"}),
        (["noindex, googlebot: nofollow"], {"noindex"}),
        (["unavailable_after: 2026-01-01, noindex"], {"unavailable_after: 2026-01-01", "noindex"}),
        ([""], set()),
    ],
)
def test_robots_directives(values: list[str], directives: set[str]) -> None:
    assert robots_directives(values) == directives


def test_pagerank_of_a_known_graph() -> None:
    # A links to B and C, B to C, C to A; D links to C, and nothing to D (Brin and Page's example).
    links = {"A": "BC", "B": "C", "C": "A", "D": "C"}
    rows = [
        {"links": [{"url": to, "internal": True} for to in targets]} for targets in links.values()
    ]
    ranks = LinkGraph.of(rows, {name: place for place, name in enumerate(links)}).pagerank()
    assert ranks == pytest.approx([0.3725, 0.1958, 0.3941, 0.0375], abs=1e-4)
    nofollow = [{"links": [{"url": "A", "rel": "nofollow", "internal": True}]}] * 2
    assert LinkGraph.of(nofollow, {"A": 0}).pagerank() == pytest.approx([0.5, 0.5])
    assert LinkGraph.of([], {}).pagerank() == []


def test_pages_without_text_are_in_no_cluster() -> None:
    assert clusters(["", "", "AAAAAQ==", "AAAAAQ==", "AAAAAg=="]) == [None, None, 1, 1, None]
    assert clusters([]) == []


def test_a_failed_extraction_is_no_fault_of_the_page() -> None:
    row = {"url": "https://a.test/", "success": False, "error": "no model", "inlinks": 1}
    facts = {"result": "page", "status_code": 200, "links": [LINK], "audit": HEALTHY}
    more: dict[str, Any] = {
        "indexable": True,
        "indexable_reason": None,
        "found_on": [],
        "page_facts": facts,
    }
    assert len(audit_df(pd.DataFrame([{**row, **more}]))) == 0


def test_inputs_that_failed_as_a_whole_are_no_pages() -> None:
    row = {"url": "https://a.test/", "success": False, "inlinks": None, "indexable": None}
    nothing = {"indexable_reason": None, "found_on": None, "page_facts": None}
    assert len(audit_df(pd.DataFrame([{**row, **nothing}, {**row, **nothing, "url": None}]))) == 0
