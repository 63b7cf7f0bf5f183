"""`to_warc` writes what a frame knows of its pages, and copies responses where they are known."""

from __future__ import annotations

import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pandas as pd
import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from webdata_nb.contract.archives import warc_record
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames.exports import to_warc

URL = "http://a.test/"
JOB = "5f0f1f8a-2a4f-4d0e-9a55-3f1f5f6f7a01"


def records(path: Path) -> list[tuple[str, str | None, dict[str, str], bytes]]:
    """Read a file with another program's reader, and let it check the digests."""
    subprocess.run([sys.executable, "-m", "warcio.cli", "check", path], check=True)
    with path.open("rb") as file:
        return [
            (
                record.rec_type,
                record.rec_headers.get_header("WARC-Target-URI"),
                dict(record.rec_headers.headers),
                record.raw_stream.read(),
            )
            for record in ArchiveIterator(file, no_record_parse=True)
        ]


def pages(**columns: list[Any]) -> pd.DataFrame:
    urls = [URL, f"{URL}b", "http://user:secret@a.test/c"]
    at = pd.to_datetime(["2024-03-01T10:00:00Z"] * 3)
    base = {"url": urls, "success": [True, True, False], "fetched_at": at}
    return pd.DataFrame({**base, **columns})


def test_documents_are_resources_and_what_was_made_of_them_conversions(tmp_path: Path) -> None:
    frame = pages(
        raw_html=["<p>Straße</p>", None, None],
        markdown=["Straße", "B", None],
        screenshot=[b"\x89PNG", None, None],
        error=[None, None, "HTTP 500 at http://user:secret@a.test/c"],
    )
    frame.attrs["webdata"] = {"kind": "crawl", "job_id": JOB, "line": "crawl"}
    path = tmp_path / "pages.warc.gz"
    to_warc(frame, path)
    written = records(path)
    assert [(kind, url) for kind, url, *_ in written] == [
        ("warcinfo", None),
        ("resource", URL),
        ("conversion", URL),
        ("conversion", URL),
        ("metadata", URL),
        ("conversion", f"{URL}b"),
        ("metadata", f"{URL}b"),
        ("metadata", f"{URL}c"),
        ("metadata", f"urn:uuid:{JOB}"),
    ]
    resource, markdown, screenshot, facts = written[1:5]
    assert resource[3] == "<p>Straße</p>".encode()
    assert resource[2]["Content-Type"] == "text/html; charset=utf-8"
    assert resource[2]["WARC-Date"] == "2024-03-01T10:00:00.000000Z"
    assert (markdown[3], screenshot[3]) == ("Straße".encode(), b"\x89PNG")
    for each in (markdown, screenshot, facts):
        assert each[2]["WARC-Refers-To"] == resource[2]["WARC-Record-ID"]
    assert orjson.loads(facts[3])["success"] is True
    assert "raw_html" not in orjson.loads(facts[3])
    assert "WARC-Refers-To" not in written[6][2]
    assert orjson.loads(written[-1][3]) == frame.attrs["webdata"]
    content = b"".join(each[3] for each in written)
    assert b"secret" not in content
    assert b"as they were sent are not known" in written[0][3]


def test_a_frame_of_another_kind_and_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    to_warc(pages().iloc[:0], path)
    assert [kind for kind, *_ in records(path)] == ["warcinfo"]
    to_warc(pages().convert_dtypes(dtype_backend="pyarrow"), path)
    assert [kind for kind, *_ in records(path)] == ["warcinfo", *["metadata"] * 3]
    assert [each.name for each in tmp_path.iterdir()] == ["a.warc.gz"]


@pytest.mark.parametrize(
    ("fetched_at", "date"),
    [
        ("2024-03-01 12:00:00+02:00", "2024-03-01T10:00:00.000000Z"),  # as of a CSV file
        (pd.Timestamp("2024-03-01T10:00:00"), "2024-03-01T10:00:00.000000Z"),
        ("yesterday", "2024-05-01T00:00:00.000000Z"),
        (None, "2024-05-01T00:00:00.000000Z"),
    ],
)
def test_times_of_other_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched_at: object, date: str
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        df = pd.DataFrame({"url": [URL], "fetched_at": [fetched_at]})
        df.attrs["webdata"] = {"finished_at": "2024-05-01T00:00:00Z"}
        to_warc(df, tmp_path / "a.warc.gz")
    finally:
        monkeypatch.undo()
        time.tzset()
    [_, (_, _, head, _), _] = records(tmp_path / "a.warc.gz")
    assert head["WARC-Date"] == date


def recorded_file(path: Path) -> pd.DataFrame:
    """Write a file as a crawl does, and return the frame of the crawl."""
    at = pd.Timestamp("2024-03-01T10:00:00Z").to_pydatetime()
    info = f"software: x\r\nisPartOf: urn:uuid:{JOB}\r\n".encode()
    written = [warc_record("warcinfo", _number(0), at, info, {})]
    exchanges = {
        "robots.txt": b"",
        "": b"<p>Front",
        "moved": b"",
        "b": b"<p>B",
        "c": b"x" * 200_000,
    }
    for number, (name, body) in enumerate(exchanges.items(), 1):
        url = {"WARC-Target-URI": f"{URL}{name}"}
        reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
        written.append(warc_record("response", _number(2 * number), at, reply, url))
        request_bytes = f"GET /{name} HTTP/1.1\r\n\r\n".encode()
        written.append(warc_record("request", _number(2 * number + 1), at, request_bytes, url))
    written.append(warc_record("metadata", _number(99), at, b'{"old": 1}', {}))
    path.write_bytes(b"".join(written))
    frame = pd.DataFrame(
        {
            "url": [URL, f"{URL}moved", f"{URL}c"],
            "metadata": [
                {"final_url": URL},
                {"final_url": f"{URL}b", "redirects": [{"url": f"{URL}moved", "status_code": 301}]},
                {"final_url": f"{URL}c", "redirects": []},
            ],
        }
    )
    request = {"url": URL, "warc": str(path)}
    frame.attrs["webdata"] = {
        "kind": "crawl",
        "job_id": JOB,
        "request": request,
        "counts": {"rows": 3},
    }
    return frame


def _number(value: int) -> UUID:
    return UUID(int=value)


def test_responses_are_copied_from_the_file_that_the_crawl_wrote(tmp_path: Path) -> None:
    frame = recorded_file(tmp_path / "site.warc.gz")
    path = tmp_path / "copy.warc.gz"
    to_warc(frame, path)
    whole = records(path)
    assert [kind for kind, *_ in whole] == ["warcinfo", *["response", "request"] * 5, "metadata"]
    assert b"old" not in whole[-1][3]
    to_warc(frame.iloc[1:2], path)
    part = [(kind, url) for kind, url, *_ in records(path)]
    assert part[1:-1] == [
        (kind, f"{URL}{name}") for name in ("moved", "b") for kind in ("response", "request")
    ]
    assert records(path)[3][3].endswith(b"<p>B")


def test_a_file_that_is_gone_or_of_another_crawl_is_not_copied(tmp_path: Path) -> None:
    source = tmp_path / "site.warc.gz"
    frame, path = recorded_file(source), tmp_path / "copy.warc.gz"
    frame.attrs["webdata"]["job_id"] = "another"
    to_warc(frame, path)
    assert {kind for kind, *_ in records(path)} == {"warcinfo", "metadata"}
    source.unlink()
    frame.attrs["webdata"]["job_id"] = JOB
    to_warc(frame, path)
    assert {kind for kind, *_ in records(path)} == {"warcinfo", "metadata"}


def test_a_file_may_be_copied_onto_itself_and_is_read_up_to_its_damage(tmp_path: Path) -> None:
    source = tmp_path / "site.warc.gz"
    frame = recorded_file(source)
    to_warc(frame, source)
    assert len(records(source)) == 12
    frame = recorded_file(source)
    source.write_bytes(source.read_bytes()[:-1000])
    path = tmp_path / "copy.warc.gz"
    to_warc(frame, path)
    assert [kind for kind, *_ in records(path)][-3:] == ["request", "response", "metadata"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pages.warc", "target must be a path that ends in .warc.gz"),
        (Path("pages.wacz"), "ends in .warc.gz; it is 'pages.wacz'"),
        ("missing/pages.warc.gz", "target must be a file in a directory that exists"),
        (3, "target must be a path"),
        (BytesIO(), "target must be a path"),
    ],
)
def test_targets_that_cannot_be_written(
    target: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=message):
        to_warc(pages(), target)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_frame_of_pages() -> None:
    with pytest.raises(InvalidArgument, match="df has no column url"):
        to_warc(pd.DataFrame({"a": [1]}), "a.warc.gz")
    with pytest.raises(InvalidArgument, match="DataFrame"):
        to_warc([URL], "a.warc.gz")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["raw_html", "markdown"])
def test_documents_that_are_none(tmp_path: Path, name: str) -> None:
    message = f"the column {name} must have texts or bytes; it has 5"
    with pytest.raises(InvalidArgument, match=message):
        to_warc(pages(**{name: [5, 5, 5]}), tmp_path / "a.warc.gz")
    assert list(tmp_path.iterdir()) == []
