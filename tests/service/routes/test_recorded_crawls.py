"""The WARC file of a crawl has what was sent, and a crawl of it has the same rows."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.service.conftest import Api, open_service
from tests.service.routes.test_archive_crawls import crawl, linked_pages, without_timings
from tests.site.document import document
from tests.site.server import Answer, Site
from webdata_nb.contract import paths
from webdata_nb.service.archives.warc import (
    WarcFile,
    WarcRecord,
    WarcWriter,
    partial_path,
    read_record,
)
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.runtime.work_threads import WorkThreads

SECRET = "s3cr3t-value"


async def record(api: Api, url: str, path: Path, **options: Any) -> Any:
    body = {"url": url, "sink": {"warc": str(path)}, **options}
    reply = await api.post(paths.EXTENDED_CRAWLS, body)
    return await api.wait_for_end("crawl", reply["job_id"])


def records_in(path: Path) -> list[tuple[WarcRecord, bytes]]:
    """Return the records of a file with their content; fails if any is damaged."""
    size = path.stat().st_size
    with path.open("rb") as file:
        warc = WarcFile(file, 0, size)
        offsets = [each.offset for each in warc.records()]
        assert warc.damage.problems == []
        records = [read_record(file, offset, size) for offset in offsets]
        return [(each, each.reader.read(each.length)) for each in records]


def check_with_warcio(path: Path) -> None:
    """Check blocks and digests with an independent reader, in a process of its own."""
    subprocess.run([sys.executable, "-m", "warcio.cli", "check", path], check=True)


def zipped(_: web.BaseRequest) -> Answer:
    answer = web.Response(text=document("Zipped", links=["/p1"]), content_type="text/html")
    answer.enable_compression(web.ContentCoding.gzip)
    answer.enable_chunked_encoding()
    answer.set_cookie("session", SECRET)
    return answer


@pytest.mark.parametrize(
    "strategy", ["bfs", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dfs", "bff"))]
)
async def test_the_file_is_a_crawl_of_the_same_rows_and_receipt(
    api: Api, site: Site, tmp_path: Path, strategy: str
) -> None:
    linked_pages(site)
    site.page("/", document("Front", links=["/p1", "/p2", "/zipped", "/broken"]))
    site.page("/zipped", zipped)
    site.page("/broken", "no gzip", headers={"Content-Encoding": "gzip"})
    site.page("/sitemap.xml", f"<urlset><url><loc>{site.at('/p11')}</loc></url></urlset>")
    options = {
        "crawl_strategy": strategy,
        "sitemap": True,
        "scrape_options": {"formats": ["markdown", "links", "raw_html"]},
    }
    path = tmp_path / "site.warc.gz"
    live = await record(api, site.url, path, **options)
    assert live["status"] == "completed"
    counts = live["receipt"]["counts"]
    assert {"robots", "redirect", "scope", "failed:http_404", "failed:decode"} <= set(counts)
    site.forget()
    archived = await crawl(api, path, **options)
    assert site.requests == ()
    assert without_timings(archived["data"]) == without_timings(live["data"])
    assert archived["receipt"] == live["receipt"]
    assert not partial_path(path, live["job_id"]).exists()
    check_with_warcio(path)


async def test_requests_responses_and_redirects_are_as_sent(
    api: Api, site: Site, tmp_path: Path
) -> None:
    site.page("/", document("Front", links=["/moved", "/zipped"]))
    site.redirect("/moved", "/target", status=308)
    site.page("/target", b"\xff\xfe raw bytes \x00", headers={"X-Case": "Kept"})
    site.page("/zipped", zipped)
    path = tmp_path / "site.warc.gz"
    await record(api, site.url, path)
    found = records_in(path)
    [(info, block), *exchanges] = found
    assert info.kind == "warcinfo"
    assert b"software: webdata_nb" in block
    kinds = [each.kind for each, _ in exchanges]
    assert kinds == ["response", "request"] * (len(exchanges) // 2)
    responses = {each.url: content for each, content in exchanges if each.kind == "response"}
    assert set(responses) == {
        site.at(each) for each in ("/robots.txt", "/", "/moved", "/target", "/zipped", "/p1")
    }
    assert responses[site.at("/moved")].startswith(b"HTTP/1.1 308 ")
    assert b"Location: /target" in responses[site.at("/moved")]
    assert b"X-Case: Kept\r\n" in responses[site.at("/target")]
    assert responses[site.at("/target")].endswith(b"\r\n\r\n\xff\xfe raw bytes \x00")
    head, _, body = responses[site.at("/zipped")].partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert b"X-Archive-Orig-Transfer-Encoding: chunked" in head
    assert body.startswith(b"\x1f\x8b")
    requests = {each.url: content for each, content in exchanges if each.kind == "request"}
    assert requests[site.at("/target")].startswith(b"GET /target HTTP/1.1\r\nHost: 127.0.0.1")
    for response, request in zip(exchanges[::2], exchanges[1::2], strict=True):
        assert request[0].fields["warc-concurrent-to"] == response[0].fields["warc-record-id"]


async def test_secrets_are_not_written(api: Api, site: Site, tmp_path: Path) -> None:
    site.page("/", document("Front", links=["/zipped"]))
    site.page("/zipped", zipped)
    path = tmp_path / "site.warc.gz"
    await record(
        api, site.url, path,
        scrape_options={
            "headers": {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET},
            "cookies": {"sid": SECRET},
        },
    )  # fmt: skip
    [hit] = site.hits("/zipped")
    assert SECRET in hit.headers["Authorization"]
    content = b"".join(content for _, content in records_in(path))
    assert SECRET.encode() not in content
    assert b"cookie: " not in content.lower()
    assert b"User-Agent: " in content


async def test_a_stopped_crawl_continues_its_file(site: Site, tmp_path: Path) -> None:
    links = [f"/{n}" for n in range(40)]
    site.page("/", document("Front", links=links))
    for each in links:
        site.page(each, document(f"Page {each}"))
    path = tmp_path / "site.warc.gz"
    async with open_service(tmp_path / "data") as api:
        gate = site.hold("/20")
        body = {"url": site.url, "sink": {"warc": str(path)}}
        job_id = (await api.post(paths.EXTENDED_CRAWLS, body))["job_id"]
        await asyncio.to_thread(site.wait_for, "/20")
    gate.release()
    partial = partial_path(path, job_id)
    assert not path.exists()
    before = records_in(partial)  # readable while the crawl is not over
    assert len(before) > 20
    # As a kill in the middle of a write leaves it.
    whole = partial.read_bytes()
    partial.write_bytes(whole + whole[:100])
    async with open_service(tmp_path / "data") as api:
        ended = await api.wait_for_end("crawl", job_id)
        assert ended["receipt"]["counts"] == {"fetched": 41}
        assert not partial.exists()
        check_with_warcio(path)
        assert [content for _, content in records_in(path)][: len(before)] == [
            content for _, content in before
        ]
        archived = await crawl(api, path)
    assert without_timings(archived["data"]) == without_timings(ended["data"])


async def test_large_pages_are_marked_as_cut_off(api: Api, site: Site, tmp_path: Path) -> None:
    site.page("/", document("Front", links=["/large"]))
    site.page("/large", bytes(11 * 1024 * 1024), headers={"Content-Type": "text/plain"})
    path = tmp_path / "site.warc.gz"
    live = await record(api, site.url, path)
    archived = await crawl(api, path)
    for reply in (live, archived):
        assert reply["receipt"]["counts"] == {"fetched": 1, "failed:too_large": 1}


async def test_a_file_that_cannot_be_written_fails_the_job(
    api: Api, site: Site, tmp_path: Path
) -> None:
    site.page("/", document("Front"))
    reply = await record(api, site.url, tmp_path / "missing" / "site.warc.gz")
    assert reply["status"] == "failed"
    assert reply["error"].endswith("site.warc.gz cannot be written (No such file or directory)")
    for wrong in ("relative.warc.gz", str(tmp_path / "a.warc"), ""):
        body = {"url": site.url, "sink": {"warc": wrong}}
        await api.post(paths.EXTENDED_CRAWLS, body, 422)


async def test_a_full_disk_is_named(tmp_path: Path) -> None:
    partial = tmp_path / "a.partial-1.warc.gz"
    partial.symlink_to("/dev/full")
    with closing(WorkThreads("test", 1)) as threads:
        writer = WarcWriter(tmp_path / "a.warc.gz", partial, {"software": "a"}, threads)
        with pytest.raises(JobFailure, match=r"a\.warc\.gz cannot be written \(No space left on"):
            await writer.open()
        writer.close()


async def test_another_file_of_that_name_is_replaced_when_the_crawl_is_complete(
    api: Api, site: Site, tmp_path: Path
) -> None:
    site.page("/", document("Front"))
    path = tmp_path / "site.warc.gz"
    path.write_bytes(b"something else")
    failed = await record(api, "http://nothing.invalid/", path)
    assert failed["status"] == "failed"
    assert path.read_bytes() == b"something else"
    await record(api, site.url, path)
    assert len(records_in(path)) == 5
