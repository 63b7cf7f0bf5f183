"""`watch_df` and `webdata watch` against a local service, and their refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import filelock
import pandas as pd
import pytest

from tests.api.receipts import SITE, receipt_of
from tests.local_service import stop
from tests.recipes import web
from tests.shell import Shell
from tests.site.document import document
from tests.site.server import Site
from tests.site.versions import VersionedSite, text_page, varied_site
from tests.test_cli import one_line
from tests.wire_service import WireService
from webdata_nb import connect, crawl_df, diff, settings, watch_df
from webdata_nb.cli.tables import STILL_RUNNING
from webdata_nb.errors import InvalidArgument, NotSupported, OfflineError, WatchRunning
from webdata_nb.toolkit.api import Session

CHECKOUT = Path(__file__).resolve().parents[2]

# Refusals


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": [SITE]}, "url must be the URL of one site"),
        ({"url": "no URL"}, "url must be"),
        ({"columns": "titel"}, "'titel' is not: did you mean 'title'"),
        ({"columns": ["markdown"], "formats": ["html"]}, "title, description, content_hash, html"),
        ({"columns": []}, "columns must have at least one entry"),
        ({"columns": {"title"}}, "columns must be a list; it is a set"),
        ({"columns": 7}, "columns must be a name or a list of names; it is 7"),
        ({"out": "changes.csv"}, "out must be the path of a .parquet file"),
        ({"out": "s3://bucket/changes.parquet"}, "of this machine"),
        ({"out": "missing/changes.parquet"}, "in a directory that exists"),
        ({"out": 7}, "out must be the path of a .parquet file"),
        ({"out": "a\0.parquet"}, "out must be a path that this machine allows .*null"),
        (
            {"out": f"{'a' * 5000}.parquet"},
            "out must be a path that this machine allows .*too long",
        ),
        ({"out": "~nobody-here/a.parquet"}, "out must be a path that this machine allows .*home"),
        ({"wait": "no"}, "wait must be True or False"),
        ({"recheck": 2}, "recheck must be a share from 0 to 1"),
        ({"max_pages": 2000}, "max_pages"),
        ({"audit": True}, "audit is not possible with watch_df"),
        ({"check_links": True}, "check_links is not possible with watch_df"),
        ({"rights": True}, "rights"),
        ({"render": True}, "since and a browser cannot be combined"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    service: WireService, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        watch_df(**{"url": SITE, **arguments})
    assert service.requests == []


@pytest.mark.usefixtures("connected")
def test_a_file_of_something_else_is_refused_before_any_work(
    service: WireService, tmp_path: Path
) -> None:
    path = tmp_path / "mine.parquet"
    pd.DataFrame({"url": [SITE]}).to_parquet(path)
    with pytest.raises(InvalidArgument, match="one that watch_df has made"):
        watch_df(SITE, out=path)
    assert service.requests == []
    assert [each.name for each in tmp_path.iterdir() if "watch" in each.name] == []


@pytest.mark.usefixtures("connected")
@pytest.mark.skipif(sys.platform == "win32", reason="needs os.mkfifo")
def test_a_pipe_is_refused_before_any_work(service: WireService, tmp_path: Path) -> None:
    path = tmp_path / "pipe.parquet"
    os.mkfifo(path)
    with pytest.raises(
        InvalidArgument, match=r"out must name a file; '.*pipe\.parquet' is not a regular file"
    ):
        watch_df(SITE, out=path)
    assert service.requests == []


def test_what_a_service_does_not_offer_leaves_no_file(
    service: WireService, connected: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "changes.parquet"
    with pytest.raises(NotSupported, match="/v1/crawls, which since needs"):
        connected.watch_df(SITE, out=out)
    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    with pytest.raises(OfflineError, match="watch_df asks the site anew"):
        connected.watch_df(SITE, out=out)
    assert service.jobs == {}
    assert not out.exists()


def test_a_call_that_must_not_wait_is_refused_while_another_one_runs(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    service.offers_extended_crawls = True
    out = tmp_path / "changes.parquet"
    assert connected.watch_df(SITE, out=out).empty
    service.crawl.running = True
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(connected.watch_df, SITE, out=out)
        service.polled.clear()
        assert service.polled.wait(30)
        with pytest.raises(WatchRunning, match="nothing was sent"):
            connected.watch_df(SITE, out=out, wait=False)
        service.crawl.running = False
        assert first.result().empty
    assert len(service.jobs) == 2


# Changes


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the tests a local service, which is stopped after the last one."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("WEBDATA_HOME", str(folder))
        yield folder
        stop(settings.current())


@pytest.fixture
def versions(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VersionedSite]:
    monkeypatch.setenv("WEBDATA_HOME", str(home))
    with Site() as site, connect():
        yield varied_site(site, 12)


def rows(changes: pd.DataFrame) -> set[tuple[str, str, str]]:
    paths = changes["url"].str.replace(r"https?://[^/]*", "", regex=True)
    return set(zip(changes["change"], paths, changes["field"], strict=True))


@pytest.mark.slow
def test_changes_are_returned_once_and_collected(versions: VersionedSite, tmp_path: Path) -> None:
    site, out = versions.site, tmp_path / "changes.parquet"
    first = watch_df(site.url, out=out)
    assert first.empty
    assert "first crawl: there is nothing to compare with" in receipt_of(first)["line"]
    before = crawl_df(site.url)  # from the cache
    assert "no change since" in receipt_of(watch_df(site.url, out=out))["line"]

    versions.change("/p3", text_page(3, "/p7", "/p8", "/new", words="other"))
    versions.add("/new", text_page(77, "/"))
    site.page("/p5", status=404)
    site.page("/p6", status=500)
    changes = watch_df(site.url, out=out, columns=None)
    fields = ("title", "markdown")
    assert rows(changes) == {
        *(("changed", "/p3", name) for name in fields),
        *(("added", "/new", name) for name in fields),
        *(("removed", "/p5", name) for name in fields),
    }
    assert receipt_of(changes)["changes"]["pages"] == {
        "changed": 1,
        "added": 1,
        "removed": 1,
        "kept": 1,
        "first_read": 1,  # /same, which had the content of /p5
    }
    compared = diff(before, crawl_df(site.url))
    assert set(changes["url"]) | {site.at("/p6")} == set(compared["url"]) - {site.at("/same")}
    title = changes[(changes["change"] == "changed") & (changes["field"] == "title")].iloc[0]
    assert (title["old"], title["new"]) == ("Word page 3", "Other page 3")
    assert title["old_at"] < title["new_at"]
    text = changes[(changes["change"] == "changed") & (changes["field"] == "markdown")].iloc[0]
    assert "+ # Other page 3" in text["evidence"]
    assert set(changes.loc[changes["change"] == "removed", "evidence"]) == {"HTTP 404 Not Found"}

    versions.add("/p6", text_page(6, "/", words="mended"), "none")
    back = watch_df(site.url, out=out)
    assert rows(back) == {("changed", "/p6", name) for name in fields}
    assert back["old"].str.contains("Word page 6").all()
    stored = pd.read_parquet(out)
    pd.testing.assert_frame_equal(pd.concat([changes, back], ignore_index=True), stored)


@pytest.mark.slow
def test_without_a_file_the_last_crawl_is_compared(versions: VersionedSite) -> None:
    url = versions.site.url
    assert watch_df(url, columns="title", max_pages=20).empty
    versions.change("/p3", text_page(3, "/p7", "/p8", words="other"))
    changes = watch_df(url, columns="title", max_pages=20)
    assert changes[["change", "field", "old", "new"]].to_numpy().tolist() == [
        ["changed", "title", "Word page 3", "Other page 3"]
    ]
    assert watch_df(url, columns="title", max_pages=20).empty


@pytest.mark.slow
def test_extracted_fields_have_the_place_in_the_page(
    versions: VersionedSite, tmp_path: Path
) -> None:
    site, out = versions.site, tmp_path / "prices.parquet"
    web.build(site)
    options: dict[str, Any] = {"extract": {"name": str, "price": float}, "columns": ["price"]}
    assert watch_df(site.at("/shop/"), out=out, max_depth=1, **options).empty
    web.set_price(site, "kettle", 24.0)
    changes = watch_df(site.at("/shop/"), out=out, max_depth=1, **options)
    [change] = changes.to_dict("records")
    assert (change["field"], change["old"], change["new"]) == ("price", "29.5", "24")
    assert "24.0" in change["evidence"]
    # A call that compares other fields is a watch of its own in the same file.
    assert watch_df(site.at("/shop/"), out=out, max_depth=1, extract=options["extract"]).empty
    assert len(pd.read_parquet(out)) == 1


@pytest.mark.slow
def test_calls_at_once_lose_and_repeat_nothing(versions: VersionedSite, tmp_path: Path) -> None:
    out, url = tmp_path / "changes.parquet", versions.site.url
    with Site() as site:
        other = varied_site(site, 6)
        for each in (url, site.url):
            watch_df(each, out=out, columns=["title"])
        versions.change("/p3", text_page(3, "/p7", "/p8", words="other"))
        other.change("/p4", text_page(4, "/", words="other"))
        with ThreadPoolExecutor(4) as pool:
            calls = [
                pool.submit(watch_df, each, out=out, columns=["title"])
                for each in (url, site.url, url, site.url)
            ]
            found = [call.result() for call in calls]
        assert sorted(map(len, found)) == [0, 0, 1, 1]
        assert set(pd.read_parquet(out)["url"]) == {versions.site.at("/p3"), site.at("/p4")}


@pytest.mark.slow
def test_a_call_that_is_killed_is_made_up_for(versions: VersionedSite, tmp_path: Path) -> None:
    site, out = versions.site, tmp_path / "changes.parquet"
    watch_df(site.url, out=out, columns=["title"])
    versions.change("/p3", text_page(3, "/p7", "/p8", words="other"))
    gate = site.hold("/p9")
    call = f"watch_df({site.url!r}, out={str(out)!r}, columns=['title'])"
    code = f"from webdata_nb import watch_df; {call}"
    with subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT) as process:
        site.wait_for("/p9", 2)
        process.kill()
    gate.release()
    assert len(pd.read_parquet(out)) == 0
    assert rows(watch_df(site.url, out=out, columns=["title"])) == {("changed", "/p3", "title")}
    assert len(pd.read_parquet(out)) == 1


# The command


@pytest.fixture
def shell(home: Path) -> Shell:
    """Return a shell with the local service of this module."""
    return Shell(home)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "changes.csv"), "out must be the path of a .parquet file"),
        (("--columns", "titel"), "did you mean 'title'"),
        (("--columns", ""), "columns must have at least one entry"),
        (("--recheck", "2"), "recheck must be a share"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = Shell(tmp_path).call("watch", "http://a.test/", *words)
    assert result.returncode == 2
    assert message in one_line(result.stderr)
    assert not list(tmp_path.iterdir()), "no service was started"


@pytest.mark.slow
def test_one_line_for_each_change(shell: Shell, versions: VersionedSite, tmp_path: Path) -> None:
    site = versions.site
    site.page("/two", document("Two", text="It costs 29 EUR. " * 20))
    site.page("/three", document("Three"))
    url, out = site.page("/", document("One", links=["/two", "/three"])), tmp_path / "c.parquet"
    words = ("watch", url, "--out", str(out))
    first = shell.call(*words)
    assert (first.returncode, first.stdout) == (0, "")
    assert "first crawl: there is nothing to compare with" in first.stderr
    unchanged = shell.call(*words, "--quiet")
    assert (unchanged.returncode, unchanged.stdout, unchanged.stderr) == (0, "", "")

    site.page("/two", document("Two", text="It costs 24 EUR. " * 20))
    site.page("/three", "gone", status=404)
    changed = shell.call(*words, "--quiet")
    assert (changed.returncode, changed.stderr) == (0, "")
    head, *lines = [line.split() for line in changed.stdout.splitlines()]
    assert head == ["change", "url", "field", "old", "new"]
    assert [line[:3] for line in lines] == [
        ["changed", site.at("/two"), "markdown"],
        ["removed", site.at("/three"), "title"],
        ["removed", site.at("/three"), "markdown"],
    ]
    assert "29" in changed.stdout
    assert "24" in changed.stdout
    assert max(map(len, changed.stdout.splitlines())) < 200
    assert len(pd.read_parquet(out)) == 3

    site.page("/three", document("Three\x1b[2J"))
    rows = json.loads(shell.call(*words, "--quiet", "--format", "json").stdout)
    assert {row["change"] for row in rows} == {"added"}
    assert {"old_at", "new_at", "evidence", "new_hash", "new_job"} <= set(rows[0])


@pytest.mark.slow
def test_overlapping_runs_are_refused(
    shell: Shell, versions: VersionedSite, tmp_path: Path
) -> None:
    site, out = versions.site, tmp_path / "changes.parquet"
    url = site.page("/", document("One"))
    shell.call("watch", url, "--out", str(out))
    locks = tmp_path.glob(".changes.parquet.watch/*.lock")
    [lock] = [path for path in locks if path.name != "append.lock"]
    requests = len(site.requests)
    with filelock.FileLock(lock):
        result = shell.call("watch", url, "--out", str(out), "--quiet")
        assert result.returncode == STILL_RUNNING == 3
        assert "is not finished; nothing was sent" in one_line(result.stderr)
    assert len(site.requests) == requests
    other = tmp_path / "mine.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(other)
    refused = shell.call("watch", url, "--out", str(other))
    assert refused.returncode == 2
    assert "is something else" in one_line(refused.stderr)
