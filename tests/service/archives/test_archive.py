"""Finds the response of a URL in WARC and WACZ files, whoever wrote them."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import os
import random
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from copy import copy
from pathlib import Path

import pytest

from tests.cpu_deadline import cpu_deadline
from tests.service.archives.warc_files import (
    compressed,
    http_response,
    record,
    response,
    write_wacz,
    write_warc,
)
from webdata_nb.contract.archives import file_version
from webdata_nb.page.errors import FetchError
from webdata_nb.service.archives.archive import (
    MAX_DIRECTORY_BYTES,
    Archive,
    Archives,
    UnusableArchive,
    open_archive,
)
from webdata_nb.service.archives.warc import MAX_DAMAGED_PLACES, WarcFile
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.runtime.work_threads import WorkStopped
from webdata_nb.service.web.request import FetchLimits

URL = "http://example.com/"
LIMITS = FetchLimits(wire_bytes=1_000_000, decoded_bytes=2_000_000)


def version_of(path: Path) -> str:
    return file_version(path.stat().st_size, path.stat().st_mtime_ns)


def body_of(archive: Archive, url: str = URL) -> bytes:
    return archive.response(url, LIMITS).body


def error_of(archive: Archive, url: str = URL) -> str:
    with pytest.raises(FetchError) as caught:
        archive.response(url, LIMITS)
    return caught.value.kind


def cancelled_after(checks: int) -> Callable[[], None]:
    """Return a check that cancels at the next call after so many."""
    counter = itertools.count()

    def check() -> None:
        if next(counter) == checks:
            raise WorkStopped

    return check


@pytest.fixture(params=["a.warc", "a.warc.gz", "a.wacz"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Archive]:
    """Write records to a file of each kind, and open it."""

    def write_and_open(*records: bytes) -> Archive:
        path = tmp_path / str(request.param)
        if path.suffix == ".wacz":
            return open_archive(write_wacz(path, {"archive/a.warc.gz": compressed(records)}))
        return open_archive(write_warc(path, *records))

    return write_and_open


class TestFinding:
    def test_each_url_has_its_response(self, write: Callable[..., Archive]) -> None:
        archive = write(
            record("warcinfo", "", b"software: test\r\n"),
            record("request", URL, b"GET / HTTP/1.1\r\n\r\n"),
            response(URL, b"front"),
            response(f"{URL}a", b"", status="404 Not Found"),
            response("https://EXAMPLE.com:443/b?x=%c3#part", b"b" * 100_000),
            record("metadata", URL, b"{}"),
            record("response", "dns:example.com", b"20240301 example.com. A 192.0.2.1"),
        )
        assert body_of(archive) == b"front"
        assert archive.response(f"{URL}a", LIMITS).status == 404
        assert body_of(archive, "https://example.com/b?x=%C3") == b"b" * 100_000
        assert len(archive.index) == 3
        assert error_of(archive, f"{URL}c") == "not_archived"
        assert archive.index.problems == []

    def test_the_newest_capture_wins_wherever_it_is(self, write: Callable[..., Archive]) -> None:
        archive = write(
            response(URL, b"second", date="2024-05-01T00:00:00Z"),
            response(URL, b"third", date="2024-06-01T00:00:00.5Z"),
            response(URL, b"first", date="2023-01-01T00:00:00Z"),
        )
        found = archive.response(URL, LIMITS)
        assert found.body == b"third"
        assert str(found.captured_at) == "2024-06-01 00:00:00.500000+00:00"

    def test_of_captures_at_the_same_time_the_last_wins(
        self, write: Callable[..., Archive]
    ) -> None:
        assert body_of(write(response(URL, b"a"), response(URL, b"b"))) == b"b"

    def test_a_revisit_has_the_body_of_the_capture_that_it_names(
        self, write: Callable[..., Archive]
    ) -> None:
        digest = {"WARC-Payload-Digest": "sha1:AAAA"}
        older = record("response", f"{URL}old", http_response(b"same"), fields=digest)
        refers = {**digest, "WARC-Refers-To-Target-URI": f"{URL}old"}
        revisit = record("revisit", URL, b"HTTP/1.1 200 OK\r\n\r\n", fields=refers)
        assert body_of(write(older, revisit)) == b"same"
        assert error_of(write(revisit)) == "not_archived"

    def test_a_revisit_has_the_head_that_was_sent_with_it(
        self, write: Callable[..., Archive]
    ) -> None:
        digest = {"WARC-Payload-Digest": "sha1:AAAA"}
        empty = record("response", f"{URL}empty", http_response(b""), fields=digest)
        refers = {**digest, "WARC-Refers-To-Target-URI": f"{URL}empty"}
        moved = b"HTTP/1.1 301 Moved\r\nLocation: /target\r\n\r\n"
        archive = write(empty, record("revisit", URL, moved, fields=refers))
        redirect = archive.response(URL, LIMITS)
        assert (redirect.status, redirect.header("location")) == (301, "/target")
        assert redirect.header("content-type") == "text/html; charset=utf-8"

    @pytest.mark.parametrize(
        "fields", [{}, {"WARC-Refers-To-Date": "2024-03-01T10:00:00.5Z"}], ids=["time", "date"]
    )
    def test_a_page_that_was_not_modified_is_the_one_before(
        self, write: Callable[..., Archive], fields: dict[str, str]
    ) -> None:
        digest = {"WARC-Payload-Digest": "sha1:AAAA"}
        page = record("response", URL, http_response(b"page"), fields=digest)
        head = b"HTTP/1.1 304 Not Modified\r\n\r\n"
        revisit = record("revisit", URL, head, date="2024-03-02T10:00:00Z", fields=fields)
        archive = write(page, revisit, response(f"{URL}new", b"", date="2024-03-03T10:00:00Z"))
        unchanged = archive.response(URL, LIMITS)
        assert (unchanged.status, unchanged.body) == (200, b"page")
        assert str(unchanged.captured_at) == "2024-03-02 10:00:00+00:00"
        earlier = record("revisit", URL, head, date="2024-02-01T10:00:00Z")
        assert error_of(write(earlier)) == "not_archived"

    @pytest.mark.parametrize("status", ["200 OK", "301 Moved"])
    def test_a_robots_txt_is_not_the_start(
        self, write: Callable[..., Archive], status: str
    ) -> None:
        robots = response(f"{URL}robots.txt", b"<html>", status=status, location=URL)
        assert write(robots, response(f"{URL}first", b"<html>")).first_page() == f"{URL}first"
        assert write(robots).first_page() is None

    def test_a_resource_is_its_content(self, write: Callable[..., Archive]) -> None:
        archive = write(record("resource", URL, b"text", fields={"Content-Type": "text/plain"}))
        found = archive.response(URL, LIMITS)
        assert (found.status, found.body, found.header("content-type")) == (
            200,
            b"text",
            "text/plain",
        )

    def test_files_of_another_writer_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "warcio.warc.gz"
        # In a process of its own: warcio leaves temporary files open.
        subprocess.run([sys.executable, "-c", _WARCIO, path], check=True)
        archive = open_archive(path)
        assert [body_of(archive, f"{URL}{n}") for n in range(50)] == [
            b"%d" % n * 999 for n in range(50)
        ]


_WARCIO = """
import sys
from io import BytesIO
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter
with open(sys.argv[1], "wb") as file:
    writer = WARCWriter(file, gzip=True, warc_version="1.1")
    for n in range(50):
        head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], "HTTP/1.1")
        body = BytesIO(b"%d" % n * 999)
        url = f"http://example.com/{n}"
        record = writer.create_warc_record(url, "response", payload=body, http_headers=head)
        writer.write_record(record)
"""


class TestBodies:
    def test_content_codings_and_chunks_are_removed(self, tmp_path: Path) -> None:
        zipped = gzip.compress(b"page " * 1000)
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (zipped[:7], zipped[7:]))
        chunked = {"transfer_encoding": "chunked", "content_encoding": "gzip"}
        archive = open_archive(
            write_warc(
                tmp_path / "a.warc.gz",
                response(f"{URL}chunked", chunks + b"0\r\n\r\n", **chunked),
                response(f"{URL}cut", chunks, **chunked),
                response(f"{URL}decoded", b"page " * 1000, **chunked),
                response(f"{URL}deflate", zlib.compress(b"abc"), content_encoding="deflate"),
            )
        )
        for name in ("chunked", "cut", "decoded"):
            assert body_of(archive, URL + name) == b"page " * 1000
        assert body_of(archive, f"{URL}deflate") == b"abc"

    def test_limits_of_a_page_hold(self, tmp_path: Path) -> None:
        bomb = gzip.compress(bytes(3_000_000))
        archive = open_archive(
            write_warc(
                tmp_path / "a.warc.gz",
                response(f"{URL}large", bytes(1_000_001)),
                response(f"{URL}bomb", bomb, content_encoding="gzip"),
                response(f"{URL}unknown", b"x", content_encoding="rot13"),
                record("response", f"{URL}text", b"no http"),
                response(f"{URL}status", b"a", status="000 None"),
                record("response", f"{URL}head", b"HTTP/1.1 200 OK\r\nContent-Type: text/html"),
                record(
                    "response", f"{URL}part", http_response(b"a"), fields={"WARC-Truncated": "time"}
                ),
            )
        )
        kinds = {"large": "too_large", "bomb": "too_large", "unknown": "decode"}
        kinds |= dict.fromkeys(("text", "status", "head", "part"), "protocol")
        assert {name: error_of(archive, URL + name) for name in kinds} == kinds


class TestDamage:
    RECORDS = tuple(response(f"{URL}{n}", random.Random(n).randbytes(500)) for n in range(20))

    def complete(self, archive: Archive) -> list[int]:
        """Return which of the records are read as they were written."""
        found = []
        for n in range(20):
            with suppress(FetchError):
                body = body_of(archive, f"{URL}{n}")
                found += [n] if body == random.Random(n).randbytes(500) else []
        return found

    @pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
    def test_of_a_file_that_was_cut_off_all_complete_records_are_read(
        self, tmp_path: Path, name: str
    ) -> None:
        path = write_warc(tmp_path / name, *self.RECORDS)
        whole = path.read_bytes()
        ends, position = [], 0
        for each in self.RECORDS:
            position += len(each if name == "a.warc" else compressed([each]))
            ends.append(position - 4 * (name == "a.warc"))
        for size in random.Random(3).sample(range(ends[0], len(whole)), 60):
            path.write_bytes(whole[:size])
            archive = open_archive(path)
            assert self.complete(archive) == list(range(sum(end <= size for end in ends)))
            assert len(archive.index.problems) <= 1

    @pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
    def test_damage_costs_the_records_that_it_hits(self, tmp_path: Path, name: str) -> None:
        path = write_warc(tmp_path / name, *self.RECORDS)
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        data[middle - 200 : middle + 200] = bytes(400)
        path.write_bytes(data)
        found = self.complete(open_archive(path))
        assert 17 <= len(found) < 20
        assert {0, 19} <= set(found)

    def test_a_length_that_lies_is_damage(self, tmp_path: Path) -> None:
        liar = record("response", f"{URL}liar", http_response(b"x"), length=10**12)
        archive = open_archive(write_warc(tmp_path / "a.warc.gz", liar, *self.RECORDS))
        assert self.complete(archive) == list(range(20))
        assert error_of(archive, f"{URL}liar") == "not_archived"
        [problem] = archive.index.problems
        assert problem == "at byte 0: the record is shorter than its Content-Length"

    def test_a_bomb_is_given_up_and_what_follows_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "a.warc.gz"
        bomb = response(f"{URL}bomb", bytes(90_000_000))
        with path.open("wb") as file:
            file.write(gzip.compress(bomb, compresslevel=9))
            file.write(compressed(self.RECORDS))
        tracemalloc.start()
        try:
            archive = open_archive(path)
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()
        assert self.complete(archive) == list(range(20))
        assert "unpacks to more than 200 times its size" in archive.index.problems[0]

    @pytest.mark.parametrize("date", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-10:00"])
    def test_a_date_outside_the_calendar_is_no_date(self, tmp_path: Path, date: str) -> None:
        path = write_warc(tmp_path / "a.warc", response(URL, b"a", date=date))
        assert open_archive(path).response(URL, LIMITS).captured_at is None

    def test_line_breaks_without_end_are_damage(self, tmp_path: Path) -> None:
        # Each of these members is in the name of the file in the one before, and has its content.
        member = b"\x1f\x8b\x08\x08\x01\x01\x01\x01\x02\x03"
        compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        line_breaks = compressor.compress(b"\n" * 30_000_000) + compressor.flush()
        path = write_warc(tmp_path / "a.warc.gz", self.RECORDS[0])
        path.write_bytes(path.read_bytes() + member * 40 + b"\0" + line_breaks + bytes(8))
        with cpu_deadline():
            problem = open_archive(path).index.problems[0]
        assert problem.endswith("a head has no end")

    def test_damage_is_limited_for_the_whole_archive(self, tmp_path: Path) -> None:
        members = {f"archive/{n}.warc": b"x" * 10 + response(URL, b"a") for n in range(150)}
        problems = open_archive(write_wacz(tmp_path / "a.wacz", members)).index.problems
        assert len(problems) == MAX_DAMAGED_PLACES + 1
        assert problems[-1] == "too many damaged places: the rest was not read"

    def test_a_search_for_the_next_record_can_be_cancelled(self, tmp_path: Path) -> None:
        path = write_warc(tmp_path / "a.warc", b"WARC/1.0\r\n\r\n" * 50)
        with path.open("rb") as file:
            warc = WarcFile(file, 0, path.stat().st_size, check=cancelled_after(5))
            with pytest.raises(WorkStopped):
                list(warc.records())

    def test_a_search_for_the_next_record_ends(self, tmp_path: Path) -> None:
        path = write_warc(tmp_path / "a.warc", self.RECORDS[0])
        os.truncate(path, 2**40)
        archive = open_archive(path)
        assert body_of(archive, f"{URL}0") == random.Random(0).randbytes(500)
        assert archive.index.problems[-1] == "too many damaged places: the rest was not read"

    def test_an_endless_head_is_damage(self, tmp_path: Path) -> None:
        head = b"WARC/1.0\r\nX: " + b"a" * 50_000_000
        archive = open_archive(write_warc(tmp_path / "a.warc.gz", head, *self.RECORDS))
        assert self.complete(archive) == list(range(20))

    @pytest.mark.parametrize("mark", [b"\x1f\x8b\x08", b"\x1f\x8b\x08\x00", b"WARC/1.0\r\n\r\n"])
    def test_marks_without_records_are_read_a_limited_number_of_times(
        self, tmp_path: Path, mark: bytes
    ) -> None:
        name = "a.warc" if mark.startswith(b"WARC") else "a.warc.gz"
        path = write_warc(tmp_path / name, self.RECORDS[0])
        path.write_bytes(path.read_bytes() + mark * 500_000)
        archive = open_archive(path)
        assert body_of(archive, f"{URL}0") == random.Random(0).randbytes(500)
        assert 1 <= len(archive.index.problems) <= MAX_DAMAGED_PLACES + 1


class TestStopping:
    """A reader that is told to stop does so within a megabyte, wherever it is."""

    BODY = random.Random(1).randbytes(8_000_000)

    @pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
    @pytest.mark.parametrize("content", ["damage", "record", "lines"])
    def test_while_an_archive_is_indexed(self, tmp_path: Path, name: str, content: str) -> None:
        path = write_warc(tmp_path / name, response(URL, b"a"))
        bytes_of = {
            "damage": self.BODY,
            "record": response(f"{URL}a", self.BODY) if name == "a.warc.gz" else self.BODY,
            "lines": b"WARC/1.0\r\n" * 800_000,
        }
        with path.open("ab") as file:
            data = bytes_of[content]
            file.write(compressed([data]) if name == "a.warc.gz" and content == "record" else data)
        checks: list[None] = []
        open_archive(path, lambda: checks.append(None))
        assert len(checks) >= 8
        for count in (0, len(checks) // 2, len(checks) - 1):
            with pytest.raises(WorkStopped):
                open_archive(path, cancelled_after(count))

    def test_while_a_page_is_read(self, write: Callable[..., Archive]) -> None:
        archive = write(response(URL, self.BODY), record("warcinfo", "", b""))
        limits = FetchLimits(wire_bytes=10_000_000, decoded_bytes=10_000_000)
        checks: list[None] = []
        assert archive.response(URL, limits, lambda: checks.append(None)).body == self.BODY
        assert len(checks) >= 2
        with pytest.raises(WorkStopped):
            archive.response(URL, limits, cancelled_after(len(checks) - 1))

    async def test_a_page_has_its_deadline(self, write: Callable[..., Archive]) -> None:
        archive = write(response(URL, b"a"))
        with (
            closing(Archives()) as archives,
            pytest.raises(FetchError, match="could not be read within 0 s") as caught,
        ):
            await archives.response(archive, URL, LIMITS, timeout_s=0.0)
        assert caught.value.kind == "timeout"

    async def test_no_archive_waits_for_another(self, tmp_path: Path) -> None:
        endless = write_warc(tmp_path / "endless.warc", response(URL, b"a"))
        os.truncate(endless, 2**40)
        good = write_warc(tmp_path / "a.warc", response(URL, b"good"))
        with closing(Archives()) as archives:
            versions = [version_of(endless)] * 2
            indexing = [asyncio.create_task(archives.open(endless, each)) for each in versions]
            await asyncio.sleep(0)  # they begin
            archive = await archives.open(good, version_of(good))
            found = await archives.response(archive, URL, LIMITS, timeout_s=60.0)
            assert found.body == b"good"
            assert not any(each.done() for each in indexing)
            for each in indexing:
                each.cancel()
            await asyncio.gather(*indexing, return_exceptions=True)


class TestUnusable:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is neither a WARC nor a WACZ file"),
            (b"<html>", "is neither a WARC nor a WACZ file"),
            (b"WARC/1.0\r\n", "has no capture of a web page: at byte 0: the file ends within"),
            (
                gzip.compress(b"text", mtime=0),
                "has no capture of a web page: at byte 0: the file ends",
            ),
            (record("warcinfo", "", b""), "the archive has no capture of a web page$"),
            (
                record("conversion", "http://a.test/", b"text") * 2,
                "no capture of a web page, only 2 conversions of pages, such as to_warc writes",
            ),
            (
                gzip.compress(response(URL, b"a") + response(URL, b"b"), mtime=0),
                "is compressed as a whole.*warcio recompress",
            ),
            (b"PK\x03\x04", "is a damaged package"),
        ],
    )
    def test_the_reason_is_one_sentence(self, tmp_path: Path, content: bytes, message: str) -> None:
        path = tmp_path / "a.warc.gz"
        path.write_bytes(content)
        with pytest.raises(UnusableArchive, match=message) as caught:
            open_archive(path)
        assert "\n" not in str(caught.value)

    def test_a_file_that_is_gone(self, tmp_path: Path) -> None:
        with pytest.raises(JobFailure, match=r"a\.warc cannot be read \(No such file"):
            open_archive(tmp_path / "a.warc")

    def test_a_pipe_is_no_archive(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.warc")
        with pytest.raises(JobFailure, match="it is no regular file"):
            open_archive(tmp_path / "a.warc")

    def test_a_file_that_changes_after_it_was_indexed(self, write: Callable[..., Archive]) -> None:
        archive = write(response(URL, b"a"))
        archive.path.write_bytes(archive.path.read_bytes() + b"\n")
        for read in (archive.first_page, lambda: archive.response(URL, LIMITS)):
            with pytest.raises(JobFailure, match="has changed since the crawl was started"):
                read()
        archive.path.unlink()
        with pytest.raises(JobFailure, match="cannot be read"):
            archive.response(URL, LIMITS)

    def test_indexing_can_be_cancelled(self, tmp_path: Path) -> None:
        path = write_warc(tmp_path / "a.warc", response(URL, b"a"))
        with pytest.raises(WorkStopped):
            open_archive(path, cancelled_after(0))


class TestWacz:
    def test_the_start_is_the_seed_of_the_list_of_pages(self, tmp_path: Path) -> None:
        warc = compressed([response(f"{URL}{n}", b"a") for n in range(3)])
        pages = (
            b'{"format": "json-pages-1.0"}\n{"url": "http://example.com/1"}\n'
            b'not json\n["url"]\n{"url": "http://example.com/2", "seed": true}\n'
        )
        members = {"pages/pages.jsonl": pages, "archive/a.warc.gz": warc}
        archive = open_archive(write_wacz(tmp_path / "a.wacz", members))
        assert archive.first_page() == f"{URL}2"

    def test_several_files_are_one_archive(self, tmp_path: Path) -> None:
        old = response(URL, b"old", date="2024-01-01T00:00:00Z")
        new = response(URL, b"new", date="2024-02-01T00:00:00Z")
        members = {
            "archive/2.warc.gz": compressed([old]),
            "archive/1.warc": new,
            "archive/readme.txt": b"not a WARC",
            "indexes/index.cdx.gz": b"anything",
        }
        archive = open_archive(write_wacz(tmp_path / "a.wacz", members))
        assert body_of(archive) == b"new"
        assert len(archive.index) == 2

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("../../archive/a.warc.gz", "has no WARC file"),
            ("/archive/a.warc.gz", "has no WARC file"),
            ("archive/a.txt", "has no WARC file"),
        ],
    )
    def test_members_elsewhere_are_not_read(self, tmp_path: Path, name: str, message: str) -> None:
        path = write_wacz(tmp_path / "a.wacz", {name: compressed([response(URL, b"a")])})
        with pytest.raises(UnusableArchive, match=message):
            open_archive(path)

    def test_the_start_may_be_in_any_file(self, tmp_path: Path) -> None:
        robots = response(f"{URL}robots.txt", b"", content_type="text/plain")
        members = {
            "archive/1.warc.gz": compressed([robots]),
            "archive/2.warc.gz": compressed([response(URL, b"a")]),
        }
        assert open_archive(write_wacz(tmp_path / "a.wacz", members)).first_page() == URL

    def test_members_that_share_bytes_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wacz"
        with zipfile.ZipFile(path, "w") as package:
            package.writestr("archive/0.warc.gz", compressed([response(URL, b"a")]))
            for number in range(1, 9):
                package.filelist.append(copy(package.filelist[0]))
                package.filelist[-1].filename = f"archive/{number}.warc.gz"
        with pytest.raises(UnusableArchive, match="its WARC files overlap"):
            open_archive(path)

    @pytest.mark.parametrize("way", ["encrypted", "lzma"])
    def test_a_list_of_pages_that_is_stored_in_another_way(self, tmp_path: Path, way: str) -> None:
        path = tmp_path / "a.wacz"
        method = zipfile.ZIP_LZMA if way == "lzma" else zipfile.ZIP_STORED
        with zipfile.ZipFile(path, "w") as package:
            package.writestr("archive/a.warc", response(URL, b"a"))
            package.writestr("pages/pages.jsonl", b"{}" * 50, method)
            package.filelist[-1].flag_bits |= way == "encrypted"
        with pytest.raises(UnusableArchive, match="its list of pages is encrypted, or compressed"):
            open_archive(path)

    def test_compressed_members_are_refused(self, tmp_path: Path) -> None:
        members = {"archive/a.warc": response(URL, bytes(10_000_000))}
        path = write_wacz(tmp_path / "a.wacz", members, zipfile.ZIP_DEFLATED)
        with pytest.raises(UnusableArchive, match="compressed or encrypted"):
            open_archive(path)

    def test_a_list_of_pages_that_is_a_bomb_is_read_in_part(self, tmp_path: Path) -> None:
        path = write_wacz(
            tmp_path / "a.wacz",
            {"pages/pages.jsonl": b"\n" * 30_000_000},
            zipfile.ZIP_DEFLATED,
        )
        with zipfile.ZipFile(path, "a") as package:
            package.writestr("archive/a.warc.gz", compressed([response(URL, b"a")]))
        tracemalloc.start()
        try:
            assert body_of(open_archive(path)) == b"a"
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()

    def test_a_large_directory_is_refused_unread(self, tmp_path: Path) -> None:
        path = write_wacz(tmp_path / "a.wacz", {"archive/a.warc": response(URL, b"a")})
        data = path.read_bytes()
        end = data.rindex(b"PK\x05\x06")
        size = MAX_DIRECTORY_BYTES + 1
        tail = data[end : end + 12] + struct.pack("<L", size) + data[end + 16 :]
        path.write_bytes(data[:end] + bytes(size) + tail)
        with pytest.raises(UnusableArchive, match="has a directory of more than"):
            open_archive(path)

    def test_a_large_directory_is_refused_wherever_its_size_is(self, tmp_path: Path) -> None:
        path = write_wacz(tmp_path / "a.wacz", {"archive/a.warc": response(URL, b"a")})
        data = path.read_bytes()
        end = data.rindex(b"PK\x05\x06")
        size = MAX_DIRECTORY_BYTES + 1
        large = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, 0)
        # A locator that looks like a second record with another size.
        locator = struct.pack("<4sL4sLL", b"PK\x06\x07", 0, b"PK\x06\x06", 0, 1)
        tail = b"PK\x05\x06" + b"\xff" * 16 + struct.pack("<H", 40) + bytes(40)
        path.write_bytes(data[:end] + bytes(size) + large + locator + tail)
        with pytest.raises(UnusableArchive, match="has a directory of more than"):
            open_archive(path)

    def test_packages_damaged_anywhere_give_one_sentence_or_the_page(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wacz"
        whole = write_wacz(
            path,
            {"pages/pages.jsonl": b"{}", "archive/a.warc.gz": compressed([response(URL, b"a")])},
        ).read_bytes()
        choices = random.Random(5)
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(choices.randint(1, 6)):
                data[choices.randrange(len(data))] = choices.randrange(256)
            path.write_bytes(data[: choices.choice([len(data), choices.randrange(len(data))])])
            problem = ""
            try:
                archive = open_archive(path)
                archive.first_page()
                archive.response(URL, LIMITS)
            except (UnusableArchive, FetchError) as error:
                problem = str(error)
            assert "\n" not in problem
