"""A URL with a path is the start of a crawl of its folder, as for `wget --no-parent`."""

from __future__ import annotations

import inspect
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.api.receipts import receipt_of
from tests.foreign.service import KEY, ForeignService, Variant
from tests.requirements import require
from tests.site.server import Site
from webdata_nb import errors
from webdata_nb.contract import paths
from webdata_nb.toolkit.api import (
    connect,
    crawl_df,
    crawl_job,
    estimate,
    history_df,
    retry_failed,
    search_df,
    watch_df,
    why,
)

FOLDERS = ("", "docs/", "docs/api/", "docs2/", "shop/", "shop/new/")


@pytest.fixture
def linked(site: Site) -> Site:
    """Give a site of folders whose pages link to each other at random, relative and absolute."""
    rng = random.Random(45)
    pages = [f"/{folder}{name}" for folder in FOLDERS for name in ("", "a.html", "b", "c?x=1")]
    for path in pages:
        links = [*rng.sample(pages, 5), "./", "../", "a.html"]
        anchors = "".join(f'<a href="{link}">to {link}</a> ' for link in links)
        site.page(path.partition("?")[0], f"<title>{path}</title><p>{path} {anchors}")
    return site


@pytest.mark.usefixtures("local_session")
@pytest.mark.parametrize("start", ["docs/", "docs/a.html", "docs/b", "docs/api/a.html", "shop/"])
def test_folder_is_what_wget_keeps_to(linked: Site, start: str, tmp_path: Path) -> None:
    url = linked.at(f"/{start}")
    log = subprocess.run(
        [
            require("wget"), "--recursive", "--level=inf", "--no-parent", "--no-verbose",
            f"--directory-prefix={tmp_path}", url,
        ],
        check=True, capture_output=True, text=True,
    ).stderr  # fmt: skip
    stored = {line.split("URL:")[1].split()[0] for line in log.splitlines() if "URL:" in line}
    df = crawl_df(url, scope="folder")
    assert set(df["url"]) == stored
    assert url[-1] != "/" or crawl_df(url)["url"].tolist() == df["url"].tolist()
    folder = f"/{start.rpartition('/')[0]}/"
    receipt = receipt_of(df)
    assert f"; below {folder}; " in receipt["line"]
    assert (receipt["request"]["scope"], receipt["folder"]) == (
        "folder",
        url[7:].split("/")[0] + folder,
    )
    outside = receipt["receipt"]["counts"]["folder"]
    assert f"{outside} elsewhere on the site" in receipt["line"]
    assert "the folder of the start page" in str(why(df, linked.url))


@pytest.mark.usefixtures("local_session")
def test_scope_of_a_crawl_is_decided_by_url_and_options(linked: Site) -> None:
    url, below = linked.at("/shop/"), f"{linked.url}shop/"

    def outside(start: str, **options: Any) -> tuple[str, bool]:
        df = crawl_df(start, max_pages=200, **options)
        return receipt_of(df)["line"], not df["url"].str.startswith(below).all()

    whole = len(crawl_df(linked.url))
    assert not outside(url)[1]
    assert (
        len(crawl_df(url, scope="site")) == whole == len(crawl_df(url, allow_external_links=True))
    )
    assert outside(url, include_paths=["*.html"])[1]
    assert not outside(url, include_paths=["*.html"], scope="folder")[1]
    line, is_wide = outside(linked.at("/shop/a.html"))
    assert is_wide
    assert "; whole site; " in line
    job = crawl_job(url)
    job.wait()
    assert "; below /shop/; " in repr(job)


@pytest.mark.usefixtures("local_session")
def test_start_page_that_has_moved_moves_the_folder(linked: Site) -> None:
    linked.redirect("/old/manual/", "/docs/api/")
    linked.redirect("/docs/api", "/docs/api/")
    linked.redirect("/gone/", "/")
    moved = crawl_df(linked.at("/old/manual/"))
    assert "; below /docs/api/; " in receipt_of(moved)["line"]
    without_slash = crawl_df(linked.at("/docs/api"))
    assert moved["title"].tolist() == without_slash["title"].tolist()
    assert len(moved) > 2
    with pytest.warns(UserWarning, match=r'no other page is in the folder .* scope="site"'):
        assert len(crawl_df(linked.at("/gone/"))) == 1


@pytest.mark.usefixtures("local_session")
def test_each_url_of_a_list_has_its_scope_and_keeps_it_in_a_retry(linked: Site) -> None:
    starts = [linked.url, linked.at("/shop/"), linked.at("/docs/index.html")]
    linked.redirect("/docs/index.html", "/docs/")
    df = crawl_df(starts)
    by_start = df.groupby("start_url")["url"].agg(set)
    assert all(url.startswith(starts[1]) for url in by_start[starts[1]])
    assert all(url.startswith(linked.at("/docs/")) for url in by_start[starts[2]])
    assert by_start[starts[0]] > by_start[starts[1]]
    assert "scope" not in receipt_of(df)["request"]
    wide = crawl_df(starts, scope="site")
    assert receipt_of(wide)["request"]["scope"] == "site"
    assert wide["start_url"].value_counts().nunique() == 1


@pytest.mark.usefixtures("local_session")
def test_failed_crawl_of_a_list_is_retried_with_its_scope(linked: Site) -> None:
    linked.page("/shop/", "", status=503)
    with pytest.warns(UserWarning, match="no page could be read"):
        df = crawl_df([linked.at("/shop/"), linked.at("/docs/")], on_error="row", scope="site")
    linked.page("/shop/", '<title>Shop</title><a href="/docs/">docs</a>')
    again = retry_failed(df)
    assert bool(again["success"].all())


@pytest.mark.usefixtures("local_session")
def test_watch_keeps_to_the_folder(linked: Site) -> None:
    assert watch_df(linked.at("/shop/")).empty
    linked.page("/shop/a.html", "<title>new</title><p>changed text")
    linked.page("/docs/a.html", "<title>new</title><p>changed text")
    assert set(watch_df(linked.at("/shop/"))["url"]) == {linked.at("/shop/a.html")}


@pytest.mark.usefixtures("local_session")
def test_the_name_of_the_contract_works_wherever_a_crawl_is_described(linked: Site) -> None:
    url = linked.at("/shop/")
    named = estimate(crawl_df, url, allow_external_links=True, max_pages=3)
    assert named == estimate(crawl_df, url, scope="any", max_pages=3)
    with connect() as session:
        assert len(session.crawl_df(url, allow_external_links=True, max_pages=3)) == 3
    assert len(history_df(crawl_df, url, scope="any", max_pages=3)) == 3
    with pytest.raises(TypeError, match="allow_external_links"):
        estimate(search_df, "q", allow_external_links=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="allow_external_links"):
        search_df("q", allow_external_links=True)  # type: ignore[call-overload]
    assert "allow_external_links" not in inspect.signature(crawl_df).parameters


def test_options_that_disagree_are_refused(linked: Site) -> None:
    with pytest.raises(errors.InvalidArgument, match="disagree"):
        crawl_df(linked.at("/shop/"), scope="folder", allow_external_links=True)
    with pytest.raises(errors.InvalidArgument, match="scope must be one of 'folder', 'site'"):
        crawl_df(linked.at("/shop/"), scope="host")  # type: ignore[call-overload]
    assert not linked.requests


# ------------------------------------------------------------------- services that know no folders


VARIANTS = (
    Variant(),
    Variant(refusal=400, error_body="empty", names_field=False, missing_path=405),
    Variant(strict=False),
    Variant(missing_path=403),
)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=("422", "400", "lenient", "gateway"))
def test_other_service_gets_the_folder_as_a_pattern(
    variant: Variant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))
    with ForeignService(variant) as service, connect(base_url=service.url, api_key=KEY) as session:
        first = session.crawl_df("https://site.test/docs/index.html")
        session.crawl_df("https://site.test/docs/a/?b=c/d")
        session.crawl_df("https://site.test/docs/start")
        session.crawl_df("https://site.test/docs/start", scope="folder")
        session.crawl_df("https://site.test/")
        session.crawl_job("https://site.test/docs/x/").cancel()
        refusals = (errors.NotSupported, errors.PermissionDenied)
        with pytest.raises(refusals, match=r'scope="folder" needs; nothing was started|Not Found'):
            session.crawl_df("https://site.test/docs/", scope="folder", include_paths=["*.html"])
        requests = [job.request for job in service.jobs.values()]
        tried = [path for _, path, *_ in service.requests if path.startswith(paths.EXTENDED_CRAWLS)]
    patterns = [request.get("include_paths") for request in requests]
    assert patterns == [["/docs/**"], ["/docs/a/**"], None, ["/docs/**"], None, ["/docs/x/**"]]
    assert all("scope" not in request for request in requests)
    assert len(tried) == 2  # once for all, and for what no pattern can say
    assert "; below /docs/; " in receipt_of(first)["line"]
