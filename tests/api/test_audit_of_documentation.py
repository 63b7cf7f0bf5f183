"""Findings about Python's documentation are those that an independent reader has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest

from tests.local_service import stop
from tests.requirements import require
from tests.site.fixtures import Docs
from tests.site.plain_audit import duplicate_texts, issues_of_page
from tests.site.plain_reading import PlainPage
from tests.site.static import StaticSite
from webdata_nb import audit_df, crawl_df, links_df, settings

pytestmark = pytest.mark.slow
MAX_PAGES = 200
# What depends on the content that is selected, or on time.
NOT_COMPARED = {"thin_page", "near_duplicate", "slow_page", "duplicate_page"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    yield tmp_path
    stop(settings.current())


def file_of(docs: Docs, url: str) -> Path:
    path = unquote(urlsplit(url).path).lstrip("/")
    return docs.root / (f"{path}index.html" if url.endswith("/") else path)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ["python", "django", "postgresql"])
def test_an_independent_reader_confirms_each_finding(name: str) -> None:
    root = require(f"{name}-docs")
    with StaticSite(root) as site:
        check_findings(Docs(site.url, root), has_other_start=name == "python")


def check_findings(docs: Docs, *, has_other_start: bool) -> None:
    pages = crawl_df(
        docs.url, max_pages=MAX_PAGES, audit=True, formats=[], cache=False, concurrency=10
    )
    findings = audit_df(pages, fold=False)
    rows: list[dict[str, object]] = pages.to_dict("records")  # type: ignore[assignment]
    read: dict[str, PlainPage] = {}
    for row in rows:
        url, path = str(row["url"]), file_of(docs, str(row["url"]))
        assert row["success"] == path.is_file(), url
        if path.suffix == ".html" and row["success"]:
            read[url] = PlainPage(url, path.read_text("utf-8"))
    assert len(read) > MAX_PAGES * 0.9
    expected = {
        (issue, str(row["url"]))
        for row in rows
        if (page := read.get(str(row["url"]))) is not None
        for issue in issues_of_page(page, int(str(row["depth"])))
    }
    expected |= set(duplicate_texts(read))
    expected |= {("broken_page", str(row["url"])) for row in rows if not row["success"]}
    check_folded(audit_df(pages), expected, read)
    compared = findings[~findings["issue"].isin(NOT_COMPARED)]
    found = set(zip(compared["issue"], compared["url"], strict=True))
    assert sorted(found - expected)[:20] == []
    assert sorted(expected - found)[:20] == []
    if has_other_start:
        check_sources(pages, read)


def check_folded(
    findings: pd.DataFrame, expected: set[tuple[str, str]], read: dict[str, PlainPage]
) -> None:
    """Compare the findings of the whole site: a kind that more than 90 % of the pages have."""
    counts = Counter(issue for issue, url in expected if url in read)
    sitewide = {issue: number for issue, number in counts.items() if number > 0.9 * len(read)}
    assert len(sitewide) >= 2
    whole = findings[findings["scope"].eq("site") & ~findings["issue"].isin(NOT_COMPARED)]
    assert dict(zip(whole["issue"], whole["count"], strict=True)) == sitewide
    assert len(findings) < len(expected) / 2
    for _, row in whole.iterrows():
        assert f"{row['count']:,} of {len(read):,} " in row["evidence"]
        assert all((row["issue"], url) in expected for url in row["found_on"])


def check_sources(pages: pd.DataFrame, read: dict[str, PlainPage]) -> None:
    """Compare the links of each page, and who links to it."""
    links = links_df(pages)
    found: defaultdict[str, list[str]] = defaultdict(list)
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for url, link in zip(links["url"], links["link"], strict=True):
        found[url].append(link)
        # The start page has another address, which is a copy of it and no row.
        target = pages["url"].iloc[0] if link == f"{pages['url'].iloc[0]}index.html" else link
        if target != url and url not in sources[target][-1:]:
            sources[target].append(url)
    wrong = [url for url, page in read.items() if found[url] != page.links]
    assert wrong[:5] == []
    columns = zip(pages["url"], pages["inlinks"], pages["found_on"], strict=True)
    wrong = [
        url
        for url, inlinks, found_on in columns
        if inlinks != len(sources[url]) or found_on != sources[url][:20]
    ]
    assert wrong[:5] == []
    assert pages["inlinks"].max() > 20
