"""Tests the content of the ZIP export and the safety of its names and pages."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from typing import Any

import pytest

from tests.requirements import require
from tests.service.exports.jobs import RowsInMemory, crawl_row, job_of, read_all, search_row
from webdata_nb.contract.outcomes import JobKind
from webdata_nb.page.content.parser import parse
from webdata_nb.service.exports import stream_json, stream_zip

PNG = b"\x89PNG\r\n\x1a\nnot really"
SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z]{2,4})?")


async def export_zip(kind: JobKind, *rows: dict[str, Any], **job: Any) -> zipfile.ZipFile:
    body = await read_all(stream_zip(job_of(kind, **job), RowsInMemory(*rows)))
    archive = zipfile.ZipFile(io.BytesIO(body))
    assert archive.testzip() is None
    return archive


async def test_each_result_has_folder_with_files() -> None:
    row = crawl_row(
        7,
        url="https://Site.test/Docs/Page%20One?q=1",
        html="<p>é</p>",
        raw_html="<html>",
        links=["https://site.test/"],
        screenshot=base64.b64encode(PNG).decode(),
        extract={"a": 1},
    )
    archive = await export_zip("crawl", row, crawl_row(8))
    folder = "results/0001-site-test-docs-page-20one"
    content = {name.rpartition("/")[2]: name for name in archive.namelist() if folder in name}
    assert set(content) == {
        "result.json",
        "content.md",
        "html.txt",
        "raw_html.txt",
        "links.json",
        "screenshot.png",
        "extract.json",
        "metadata.json",
    }
    assert archive.read(content["content.md"]) == b"# Page 7"
    assert archive.read(content["html.txt"]).decode() == "<p>é</p>"
    assert archive.read(content["screenshot.png"]) == PNG
    assert json.loads(archive.read(content["links.json"])) == row["links"]
    result = json.loads(archive.read(content["result.json"]))
    assert result["url"] == row["url"]
    assert set(result) & {"markdown", "screenshot", "links"} == set()


async def test_data_file_is_json_export() -> None:
    rows = [search_row(rank) for rank in (1, 2, 3)]
    archive = await export_zip("search", *rows)
    body = await read_all(stream_json(job_of("search"), RowsInMemory(*rows)))
    assert archive.read("data.json") == body


async def test_index_lists_all_results_and_files() -> None:
    rows = [search_row(1), search_row(2, success=False, error="HTTP 410 Gone", markdown=None)]
    archive = await export_zip("search", *rows)
    index = json.loads(archive.read("index.json"))
    assert [each["url"] for each in index["results"]] == [row["url"] for row in rows]
    named = {f"{each['folder']}/{name}" for each in index["results"] for name in each["files"]}
    assert named == {name for name in archive.namelist() if name.startswith("results/")}
    html = archive.read("index.html").decode()
    assert all(f'href="{name}"' in html for name in named)
    assert "HTTP 410 Gone" in html
    assert "2 results, 1 of them failed" in html


async def test_invalid_screenshot_stays_in_result() -> None:
    archive = await export_zip("search", search_row(1, screenshot="no base64!"))
    [result] = [name for name in archive.namelist() if name.endswith("result.json")]
    assert json.loads(archive.read(result))["screenshot"] == "no base64!"


async def test_file_names_are_safe_for_hostile_urls() -> None:
    names = json.loads((require("corpora") / "own" / "hostile_file_names.json").read_text("utf-8"))
    names += json.loads((require("corpora") / "strings" / "blns.json").read_text("utf-8"))
    names += ["http://[", "http://a.test/A", "http://a.test/a", "CON", "nul.txt", ""]
    archive = await export_zip("search", *[search_row(1, url=name, title=name) for name in names])
    members = archive.namelist()
    assert len({name.lower() for name in members}) == len(members)
    for member in members:
        assert len(member) <= 100
        assert all(SAFE_NAME.fullmatch(part) for part in member.split("/")), member
    assert len(json.loads(archive.read("index.json"))["results"]) == len(names)


HOSTILE_TEXTS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "http://a.test/' onmouseover='alert(1)",
    'http://a.test/" onmouseover="alert(1)',
    "http://a.test/<b>",
]


@pytest.mark.parametrize("hostile", HOSTILE_TEXTS)
async def test_index_has_no_scripts_or_external_resources(hostile: str) -> None:
    row = search_row(1, url=hostile, title=hostile, snippet=hostile, error=hostile, success=False)
    archive = await export_zip("search", row, subject=hostile)
    document = parse(archive.read("index.html").decode())
    for element in document.select("*"):
        assert element.tag not in {"script", "img", "iframe", "object", "base", "form"}
        assert not [name for name in element.attrs if name.startswith("on")]
        if element.tag == "a":
            href = element.attr("href") or ""
            assert href.startswith(("http://", "results/", "data.json", "index.json")), href
    assert document.select("h1")[0].text == hostile


async def test_index_escapes_hostile_strings() -> None:
    strings = json.loads((require("corpora") / "strings" / "blns.json").read_text("utf-8"))
    strings = [text for text in strings if text.strip()]
    archive = await export_zip("search", *[search_row(1, title=text) for text in strings])
    document = parse(archive.read("index.html").decode())
    assert len(document.select("li")) == len(strings)
    assert not document.select("script, img, iframe, svg, body *[onload]")
