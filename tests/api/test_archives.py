"""`crawl_df` of a WARC or WACZ file: arguments, cache, and what wget stored of a site."""

from __future__ import annotations

import gzip
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.api.receipts import receipt_of
from tests.local_service import stop
from tests.requirements import require
from tests.service.archives import warc_files
from tests.service.archives.warc_files import response, write_warc
from tests.site.document import document
from tests.site.fixtures import Docs
from tests.wire_service import WireService
from webdata_nb import record, replay, settings, why
from webdata_nb.demo.server import SampleSite
from webdata_nb.errors import InvalidArgument, JobFailed
from webdata_nb.toolkit.api import Session, connect, crawl_df, retry_failed
from webdata_nb.toolkit.frames.exports import append_receipt

if TYPE_CHECKING:
    import pandas as pd

URL = "http://example.test/"


@pytest.fixture
def on_local_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Give a session on a local service with a data directory of its own."""
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    with connect() as made:
        yield made
    stop(settings.current())


def small_archive(path: Path, title: str = "Front") -> Path:
    return write_warc(
        path,
        response(URL, document(title, links=["/a", "/missing"]).encode()),
        response(f"{URL}a", document("Page A").encode()),
    )


@pytest.mark.usefixtures("on_local_service")
def test_a_path_is_crawled_from_its_first_page_and_cached_until_it_changes(tmp_path: Path) -> None:
    path = small_archive(tmp_path / "site.warc.gz")
    frame = crawl_df(str(path))
    assert frame["title"].tolist() == ["Front", "Page A"]
    assert str(frame["fetched_at"][0]) == "2024-03-01 10:00:00+00:00"
    line = receipt_of(frame)["line"]
    assert "2 rows; not crawled: 1 not in the archive" in line
    missing = why(frame, f"{URL}missing")
    assert missing.outcome == "not_archived"
    assert receipt_of(crawl_df(path))["cache"] == "hit"

    small_archive(path, "New front")
    assert crawl_df(path)["title"].tolist() == ["New front", "Page A"]

    from_a = crawl_df(f"{URL}a", as_of={"source": path})
    assert from_a["url"].tolist() == [f"{URL}a"]

    batches = list(crawl_df(path, stream=1, cache=False))
    assert [batch["title"][0] for batch in batches] == ["New front", "Page A"]

    failing = write_warc(tmp_path / "b.warc", response(URL, b"", status="404 Not Found"))
    with pytest.warns(UserWarning, match="no page could be read"):
        failed = crawl_df(URL, as_of={"source": failing})
    with pytest.raises(InvalidArgument, match="the frame is of an archive"):
        retry_failed(failed)

    with pytest.raises(JobFailed, match="the start page is not in the archive"):
        crawl_df(f"{URL}missing", as_of={"source": path})


@pytest.mark.slow
@pytest.mark.usefixtures("on_local_service")
def test_a_list_of_archives_is_one_frame(tmp_path: Path) -> None:
    first = small_archive(tmp_path / "first.warc.gz", "First")
    second = small_archive(tmp_path / "second.warc", "Second")
    frame = crawl_df([second, str(first)])
    assert frame["title"].tolist() == ["Second", "Page A", "First", "Page A"]
    assert frame["start_url"].tolist() == [str(second)] * 2 + [str(first)] * 2
    assert receipt_of(crawl_df([str(second), first]))["cache"] == "hit"
    batches = crawl_df([first, second], stream=9, cache=False)
    assert [batch["title"][0] for batch in batches] == ["First", "Second"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": ["a.warc", "missing.warc.gz"]}, "there is no archive /.*missing.warc.gz$"),
        ({"url": ["a.warc", URL]}, "a list of archives has paths of files only: .* one is"),
        ({"url": [URL, Path("a.warc")]}, "a list of archives has paths of files only: .* one is"),
        ({"url": ["a.warc"], "since": "last"}, "archive and since cannot be combined"),
        ({"url": ["a.warc"], "as_of": "2024-03-01"}, "archive and as_of cannot"),
        ({"url": []}, "url must have at least one entry"),
        ({"url": "missing.warc.gz"}, "there is no archive /.*missing.warc.gz$"),
        (
            {"url": URL, "as_of": {"source": Path("a.zip")}},
            r"an archive is a file .warc, .warc.gz, .wacz; it is",
        ),
        ({"url": URL, "as_of": {"source": 3}}, "the source of as_of must be 'wayback'"),
        ({"url": [URL], "as_of": {"source": "a.warc"}}, "source of as_of, url must be one URL"),
        ({"url": "a.warc", "as_of": {"source": "a.warc"}}, "url"),
        ({"url": URL, "as_of": {"source": "a.warc", "date": "2024-03-01"}}, "has no date and no"),
        ({"url": URL, "as_of": {"file": "a.warc"}}, "date, source, max_distance, and 'file' is"),
        ({"url": "a.warc", "render": True}, "archive and a browser cannot be combined"),
        ({"url": "a.warc", "formats": ["screenshot"]}, "archive and a browser cannot be combined"),
        (
            {"url": "a.warc", "scrape_options": {"headers": {"X": "y"}}},
            "archive and headers cannot be combined",
        ),
        ({"url": "a.warc", "rights": True}, "archive and rights cannot be combined"),
        ({"url": "a.warc", "rights": "ai-train"}, "archive and a purpose cannot be"),
        ({"url": "a.warc", "since": "last"}, "archive and since cannot be combined"),
        ({"url": "a.warc", "lazy": True}, "archive and lazy cannot be combined"),
        ({"url": "a.warc", "max_pages": 1001}, "max_pages must be from 1 to 1000, or up to"),
    ],
)
def test_wrong_arguments_are_refused_before_a_service_starts(
    arguments: dict[str, object],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    small_archive(tmp_path / "a.warc")
    with pytest.raises(InvalidArgument, match=message) as caught:
        crawl_df(**arguments)  # type: ignore[call-overload]
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "home").exists()


@pytest.mark.usefixtures("connected")
def test_another_service_is_not_asked(service: WireService, tmp_path: Path) -> None:
    path = small_archive(tmp_path / "a.warc")
    with pytest.raises(InvalidArgument, match="read and written by the local service only"):
        crawl_df(path)
    assert service.requests == []


@pytest.mark.slow
@pytest.mark.usefixtures("on_local_service")
def test_out_writes_an_archive_that_gives_the_same_frame(
    sample_site: SampleSite, tmp_path: Path
) -> None:
    path = tmp_path / "sample.warc.gz"
    options = {"max_pages": 8, "formats": ["markdown", "links"]}
    live = crawl_df(sample_site.url, out=path, **options)  # type: ignore[call-overload]
    archived = crawl_df(path, **options)  # type: ignore[call-overload]
    assert comparable(live).equals(comparable(archived))
    subprocess.run([sys.executable, "-m", "warcio.cli", "check", path], check=True)
    lines = gzip.decompress(path.read_bytes()).split(b"\r\n")
    [receipt] = [line for line in lines if line.startswith(b'{"') and b'"job_id"' in line]
    stored = json.loads(receipt)
    assert stored["receipt"] == receipt_of(live)["receipt"]
    path.unlink()
    assert comparable(live.webdata.refresh()).equals(comparable(live))
    assert path.exists()
    assert comparable(archived.webdata.refresh()).equals(comparable(live))
    # Each call writes a file anew: a cached frame would leave none.
    path.unlink()
    crawl_df(sample_site.url, out=path, **options)  # type: ignore[call-overload]
    assert path.exists()


@pytest.mark.usefixtures("on_local_service")
def test_a_replayed_call_writes_no_archive(sample_site: SampleSite, tmp_path: Path) -> None:
    path = tmp_path / "sample.warc.gz"
    with record(tmp_path / "recording"):
        crawl_df(sample_site.url, out=path, max_pages=2)
    written = path.read_bytes()
    with (
        replay(tmp_path / "recording"),
        pytest.raises(InvalidArgument, match="a replayed call sends no requests"),
    ):
        crawl_df(sample_site.url, out=path, max_pages=2)
    assert path.read_bytes() == written


def test_the_receipt_is_appended_whole_to_the_file_of_its_crawl(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    block = b"software: a\r\nisPartOf: urn:uuid:job-1\r\n"
    written = write_warc(path, warc_files.record("warcinfo", "", block)).read_bytes()
    append_receipt(path, {"job_id": "job-2"})  # of a crawl whose file was replaced
    assert path.read_bytes() == written
    with (
        limited_file_size(len(written) + 10),
        pytest.raises(OSError, match="File too large"),
    ):
        append_receipt(path, {"job_id": "job-1"})
    assert path.read_bytes() == written
    append_receipt(path, {"job_id": "job-1"})
    assert b'{"job_id":"job-1"}' in gzip.decompress(path.read_bytes())


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Let writes beyond a size fail, as on a full disk."""
    earlier = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, earlier[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, earlier)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out": "a.warc"}, "an archive is written as .warc.gz; out is"),
        ({"out": "a.wacz"}, "an archive is written as .warc.gz; out is"),
        ({"out": "missing/a.warc.gz"}, "out must be in a directory that exists"),
        ({"url": [URL]}, "a WARC file as out and a list cannot be combined"),
        ({"stream": True}, "a WARC file as out and stream cannot be combined"),
        ({"stream": 3}, "a WARC file as out and stream cannot be combined"),
        ({"lazy": True}, "a WARC file as out and lazy cannot be combined"),
        ({"max_pages": 1001}, "a WARC file as out and more than 1,000 pages cannot be combined"),
        ({"rights": "ai-train"}, "a WARC file as out and a purpose cannot be combined"),
        ({"since": "last"}, "a WARC file as out and since cannot be combined"),
        ({"url": "a.warc.gz"}, "archive and a WARC file as out cannot be combined"),
    ],
)
def test_wrong_arguments_of_an_archive_to_write(
    arguments: dict[str, object],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    with pytest.raises(InvalidArgument, match=message) as caught:
        crawl_df(**{"url": URL, "out": "a.warc.gz", **arguments})  # type: ignore[call-overload]
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("connected")
def test_another_service_writes_no_archive(service: WireService, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="read and written by the local service only"):
        crawl_df(URL, out=tmp_path / "a.warc.gz")
    assert service.requests == []


def comparable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without what depends on the time."""
    compared = frame.drop(columns=["time_taken", "fetched_at"])
    compared["metadata"] = compared["metadata"].map(
        lambda metadata: {**metadata, "fetched_at": None}
    )
    return compared


@pytest.mark.slow
@pytest.mark.usefixtures("on_local_service")
def test_the_documentation_as_wget_stored_it_is_the_frame_of_the_live_site(
    python_docs: Docs, tmp_path: Path
) -> None:
    start = f"{python_docs.url}tutorial/index.html"
    subprocess.run(
        [
            require("wget"), "--quiet", "--recursive", "--level=20", "--no-parent",
            f"--warc-file={tmp_path / 'docs'}", f"--directory-prefix={tmp_path / 'files'}", start,
        ],
        check=True,
    )  # fmt: skip
    options = {
        "max_pages": 60,
        "formats": ["markdown", "links", "headings", "raw_html"],
        "scope": "folder",
        "cache": False,
    }
    live = crawl_df(start, **options)  # type: ignore[call-overload]
    archived = crawl_df(tmp_path / "docs.warc.gz", **options)  # type: ignore[call-overload]
    assert len(live) == 17
    # The folder is what --no-parent means.
    saved = (tmp_path / "files").rglob("tutorial/*.html")
    assert set(live["url"].str.rpartition("/")[2]) == {file.name for file in saved}
    assert comparable(live).equals(comparable(archived))
    assert live.dtypes.equals(archived.dtypes)
    counts = [receipt_of(frame)["receipt"]["counts"] for frame in (live, archived)]
    assert counts[0] == counts[1]
