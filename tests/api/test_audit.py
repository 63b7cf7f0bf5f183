"""Audits of whole sites: every known fault is found, and nothing else."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.local_service import stop
from tests.site.document import document
from tests.site.faulty_site import FaultySite
from tests.site.server import Site
from webdata_nb import (
    __all__,
    audit_df,
    audit_report,
    crawl_df,
    crawl_job,
    links_df,
    plot_audit,
    settings,
    to_parquet,
)
from webdata_nb.errors import NotFound
from webdata_nb.toolkit import api
from webdata_nb.toolkit import session as connections

AUDITED: dict[str, Any] = {
    "audit": True,
    "check_links": True,
    "sitemap": True,
    "max_pages": 400,
    "formats": [],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the module's local service a home of its own."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("audit")
        patch.setenv("WEBDATA_HOME", str(path))
        patch.setattr(connections._DEFAULT, "connection", None)  # of an earlier module
        yield path
        stop(settings.current())


@pytest.fixture(scope="module")
def faulty(home: Path) -> Iterator[FaultySite]:
    _ = home
    with Site() as site, Site() as outside:
        yield FaultySite(site, outside, pages=250)


@pytest.fixture(scope="module")
def audited(faulty: FaultySite) -> pd.DataFrame:
    pages: pd.DataFrame = crawl_df(faulty.url, **AUDITED, cache=False)
    return pages


def without_slow_pages(findings: pd.DataFrame) -> pd.DataFrame:
    """Leave out slow pages: on a loaded machine any page is one."""
    return findings[findings["issue"] != "slow_page"]


def test_each_fault_is_found_once_and_nothing_else(
    faulty: FaultySite, audited: pd.DataFrame
) -> None:
    findings = audit_df(audited)
    paths = findings["url"].str.removeprefix(faulty.url.rstrip("/"))
    found = Counter(zip(findings["issue"], paths, strict=True))
    unexpected = set(found) - faulty.expected
    assert {issue for issue, _ in unexpected} <= {"slow_page"}
    assert faulty.expected - set(found) == set()
    assert set(found.values()) == {1}
    assert len({issue for issue, _ in faulty.expected}) >= 60


def test_columns_say_who_links_where(faulty: FaultySite, audited: pd.DataFrame) -> None:
    paths = audited["url"].str.removeprefix(faulty.url.rstrip("/"))
    pages: dict[Any, dict[Any, Any]] = audited.set_index(paths).to_dict("index")
    gone = pages["/f0/gone"]
    assert gone["found_on"] == [faulty.url + "hub-0"]
    assert (gone["inlinks"], gone["outlinks"], gone["indexable"]) == (1, 0, False)
    assert gone["indexable_reason"] == "failed: http_410"
    reasons = {
        path: pages[f"/f0/{path}"]["indexable_reason"]
        for path in ("noindex", "canonical", "header", "to-error")
    }
    assert reasons == {
        "noindex": "noindex",
        "canonical": "canonical",
        "header": "noindex",
        "to-error": "failed: http_404",
    }
    assert pages["/f0/to-error"]["redirect_chain"] == [
        {"url": faulty.url + "f0/to-error", "status_code": 301}
    ]
    assert pages["/f0/target"]["found_on"] == [
        faulty.url + path for path in ("hub-0", "f0/empty-link")
    ]
    assert pages["/"]["inlinks"] > 190
    assert len(pages["/"]["found_on"]) == 20
    assert audited["pagerank"].sum() == pytest.approx(1)
    assert max(pages, key=lambda path: pages[path]["pagerank"]) == "/"
    [same] = {pages[f"/f0/same-{name}"]["cluster"] for name in "xyz"}
    assert same != pages["/f1/same-x"]["cluster"]


def test_findings_name_the_pages_that_contain_a_link(
    faulty: FaultySite, audited: pd.DataFrame
) -> None:
    findings = audit_df(audited)
    assert findings.dtypes.astype("str").to_dict() == {
        "issue": "str",
        "severity": "str",
        "priority": "Int16",
        "scope": "str",
        "url": "str",
        "evidence": "str",
        "found_on": "object",
        "count": "Int32",
        "reach": "Int32",
    }
    assert findings["priority"].is_monotonic_decreasing
    by_severity = findings[findings["reach"] == 1].groupby("severity", sort=False)["priority"]
    assert by_severity.max().tolist() == by_severity.min().tolist()
    assert list(by_severity.groups) == ["error", "warning", "notice"]
    by_place: dict[Any, dict[Any, Any]] = findings.set_index(["issue", "url"]).to_dict("index")
    chain = by_place[("redirect_chain", faulty.url + "f0/two-hops")]
    assert chain["found_on"] == [faulty.url + "hub-0"]
    assert chain["evidence"].count(" → ") == 2
    empty = by_place[("empty_link_text", faulty.url + "f0/empty-link")]
    assert (empty["evidence"], empty["count"]) == (faulty.url + "f0/target", 2)
    duplicate = by_place[("duplicate_title", faulty.url + "f1/title-a")]
    assert (duplicate["evidence"], duplicate["count"]) == ("This title of /f1 is on two pages", 2)


@pytest.mark.slow
def test_parts_and_other_forms_of_the_frame(
    faulty: FaultySite, audited: pd.DataFrame, tmp_path: Path
) -> None:
    whole = audit_df(audited)
    part = audited[audited["url"].str.endswith("/missing")]
    assert audit_df(part)["issue"].tolist() == ["broken_page", "broken_page"]
    empty = audit_df(audited.iloc[:0])
    assert (len(empty), empty.dtypes.tolist()) == (0, whole.dtypes.tolist())
    again = audit_df(crawl_df(faulty.url, **AUDITED))
    cached = crawl_df(faulty.url, **AUDITED, dtype_backend="pyarrow", offline=True)
    assert cached.attrs["webdata"]["cache"] == "hit"
    arrow = audit_df(cached)
    keys = ["issue", "severity", "url", "count"]
    whole = without_slow_pages(whole)
    for other in map(without_slow_pages, (again, arrow)):
        assert other[keys].to_numpy().tolist() == whole[keys].to_numpy().tolist()
    assert {name for name in arrow if not isinstance(arrow[name].dtype, pd.ArrowDtype)} == {
        "found_on"
    }
    to_parquet(audited, tmp_path / "pages.parquet")
    stored = pd.read_parquet(tmp_path / "pages.parquet")
    assert (
        without_slow_pages(audit_df(stored))[keys].to_numpy().tolist()
        == whole[keys].to_numpy().tolist()
    )


def test_links_of_audited_pages_have_texts(faulty: FaultySite, audited: pd.DataFrame) -> None:
    links = links_df(audited)
    at = links[links["url"] == faulty.url + "f0/nofollow-link"]
    assert at[["position", "link", "internal", "text"]].to_numpy().tolist() == [
        [1, faulty.url + "hub-0", True, "x"],
        [2, faulty.url, True, "To /"],
    ]
    assert at["rel"].fillna("").tolist() == ["nofollow", ""]
    by_link = links.drop_duplicates("link").set_index("link")
    assert by_link.loc[faulty.url + "f0/missing", "status_code"] == 404
    assert by_link.loc[faulty.url + "f0/two-hops", "status_code"] == 200
    assert by_link.loc[faulty.outside.at("/f0/login"), "error"] == "HTTP 403 Forbidden"
    states = by_link.loc[[faulty.outside.at(f"/f0/{name}") for name in ("ok", "none", "moved")]]
    assert states["status_code"].tolist() == [200, 404, 200]
    assert states["error"].fillna("").tolist() == ["", "HTTP 404 Not Found", ""]
    assert audited.webdata.audit().equals(audit_df(audited))


def test_broken_links_are_those_of_the_findings(audited: pd.DataFrame) -> None:
    broken = links_df(audited, broken=True)
    findings = audit_df(audited)
    kinds = {"broken_page", "server_error", "unreachable_page", "redirect_loop"}
    kinds |= {"redirect_to_error", "broken_external_link", "unreachable_external_link"}
    linked = findings[findings["issue"].isin(kinds) & findings["count"].gt(0)]
    # The finding about a redirect to a site without address is one about redirects.
    unreachable = {url for url in broken["link"] if url.endswith("/away")}
    assert set(broken["link"]) == set(linked["url"]) | unreachable
    sources = broken.groupby("link")["url"].agg(set)
    for url, found_on in zip(linked["url"], linked["found_on"], strict=True):
        assert set(found_on) <= sources[url]
    assert broken["error"].notna().all()
    whole = links_df(audited)
    assert broken["position"].tolist() == [
        position
        for url, link, position in zip(whole["url"], whole["link"], whole["position"], strict=True)
        if url in sources.get(link, ())
    ]


def test_links_of_any_crawl_come_from_the_service(faulty: FaultySite) -> None:
    job = crawl_job(faulty.url, max_pages=4, formats=[])
    pages = job.df()
    for source in (pages, job, job.job_id):
        links = links_df(source)
        assert set(links["url"]) == set(pages["url"])
        assert links["text"].isna().all()
        assert links.dtypes["status_code"] == "Int32"
    first = pages.iloc[:1]
    assert set(first.webdata.links()["url"]) == {faulty.url}
    formatted = crawl_df(faulty.url, max_pages=4, formats=["links"], only_main_content=False)
    assert set(links_df(formatted)["link"]) == set(links_df(pages)["link"])
    with pytest.raises(NotFound):
        links_df("no-such-job")


@pytest.mark.slow
def test_a_job_has_the_columns_of_an_audit(faulty: FaultySite) -> None:
    started_job = crawl_job(faulty.url, max_pages=5, formats=[], audit=True)
    pages = started_job.df()
    assert pages["found_on"].tolist()[1] == [faulty.url]
    assert "page_facts" not in crawl_job(faulty.url, max_pages=5, formats=[]).df().columns


@pytest.mark.slow
def test_an_audit_since_an_earlier_one_has_the_same_columns(faulty: FaultySite) -> None:
    options: dict[str, Any] = {"audit": True, "max_pages": 5, "formats": [], "cache": False}
    first = crawl_df(faulty.url, **options)
    again = crawl_df(faulty.url, since=first, **options)
    measured = {"fetch_seconds"}
    facts, earlier = (
        [{name: each[name] for name in each.keys() - measured} for each in df["page_facts"]]
        for df in (again, first)
    )
    assert facts == earlier


@pytest.mark.usefixtures("home")
def test_spellings_of_one_url_are_one_page() -> None:
    """Percent-encodings in upper and lower case, and an empty query."""
    with Site() as site, Site() as outside:
        links = ["/c%c3%a9", "/p?", "/q", outside.at("/gone"), outside.at("/%c3%a9")]
        site.page("/", document("Start", links=links))
        site.page("/c%c3%a9", document("Page", links=["/q?", outside.at("/gone?")]))
        site.page("/p", document("Other", links=["/c%C3%A9", outside.at("/%C3%A9")]))
        own = f"<link rel=canonical href='{site.at('/q?')}'><link rel=alternate hreflang=de href=?>"
        site.page("/q", f"{own}<a href=/p>x</a>")
        sitemap = f"<urlset><url><loc>{site.at('/c%C3%A9')}</loc></url></urlset>"
        site.page("/sitemap.xml", sitemap, headers={"Content-Type": "application/xml"})
        outside.page("/%c3%a9", "x", status=403)
        pages = crawl_df(site.url, **AUDITED, cache=False)
    assert pages["url"].tolist() == [site.at(path) for path in ("/", "/c%c3%a9", "/p?", "/q")]
    assert pages["inlinks"].tolist()[1:] == [2, 2, 2]
    assert pages["indexable_reason"].isna().all()
    findings = audit_df(pages)
    found = set(zip(findings["issue"], findings["url"], strict=True))
    assert {url for issue, url in found if issue == "broken_external_link"} == {
        outside.at("/gone"),
        outside.at("/gone?"),
    }
    assert ("refused_external_link", outside.at("/%C3%A9")) in found
    assert ("missing_from_sitemap", site.at("/c%c3%a9")) not in found
    issues = {issue for issue, _ in found}
    assert issues.isdisjoint({"canonicalized", "hreflang_without_self", "orphan_page"})
    assert links_df(pages)["status_code"].notna().all()


@pytest.mark.slow
@pytest.mark.parametrize("documented", [audit_df, audit_report, plot_audit])
def test_docstring_examples_run(
    faulty: FaultySite, documented: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {name: getattr(api, name) for name in __all__ if hasattr(api, name)}
    globs = {**names, "start_url": faulty.url}
    [example] = doctest.DocTestFinder(recurse=False).find(documented, "example", globs=globs)
    result = doctest.DocTestRunner().run(example)
    assert (result.failed, result.attempted) == (0, 2)
