"""The ZIP export: whole, readable, and with names and pages that can do no harm."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from typing import Any

import pytest

from tests.requirements import require
from tests.service.exports.jobs import Given, crawl_row, job_of, search_row, whole
from webdata_nb.contract.states import JobKind
from webdata_nb.service.content.parser import parse
from webdata_nb.service.exports import as_json, as_zip

PNG = b"\x89PNG\r\n\x1a\nnot really"
SAFE = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z]{2,4})?")


async def archive(kind: JobKind, *rows: dict[str, Any], **job: Any) -> zipfile.ZipFile:
    body = await whole(as_zip.stream(job_of(kind, **job), Given(*rows)))
    opened = zipfile.ZipFile(io.BytesIO(body))
    assert opened.testzip() is None
    return opened


async def test_a_folder_a_result_with_its_content_and_metadata() -> None:
    row = crawl_row(
        7,
        url="https://Site.test/Docs/Page%20One?q=1",
        html="<p>é</p>",
        raw_html="<html>",
        links=["https://site.test/"],
        screenshot=base64.b64encode(PNG).decode(),
        extract={"a": 1},
    )
    opened = await archive("crawl", row, crawl_row(8))
    folder = "results/0001-site-test-docs-page-20one"
    content = {name.rpartition("/")[2]: name for name in opened.namelist() if folder in name}
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
    assert opened.read(content["content.md"]) == b"# Page 7"
    assert opened.read(content["html.txt"]).decode() == "<p>é</p>"
    assert opened.read(content["screenshot.png"]) == PNG
    assert json.loads(opened.read(content["links.json"])) == row["links"]
    result = json.loads(opened.read(content["result.json"]))
    assert result["url"] == row["url"]
    assert set(result) & {"markdown", "screenshot", "links"} == set()


async def test_the_full_data_is_the_json_export() -> None:
    rows = [search_row(rank) for rank in (1, 2, 3)]
    opened = await archive("search", *rows)
    body = await whole(as_json.stream(job_of("search"), Given(*rows)))
    assert opened.read("data.json") == body


async def test_the_index_lists_every_result_and_file() -> None:
    rows = [search_row(1), search_row(2, success=False, error="HTTP 410 Gone", markdown=None)]
    opened = await archive("search", *rows)
    index = json.loads(opened.read("index.json"))
    assert [each["url"] for each in index["results"]] == [row["url"] for row in rows]
    named = {f"{each['folder']}/{name}" for each in index["results"] for name in each["files"]}
    assert named == {name for name in opened.namelist() if name.startswith("results/")}
    html = opened.read("index.html").decode()
    assert all(f'href="{name}"' in html for name in named)
    assert "HTTP 410 Gone" in html
    assert "2 results, 1 of them failed" in html


async def test_a_screenshot_that_is_none_stays_in_the_data() -> None:
    opened = await archive("search", search_row(1, screenshot="no base64!"))
    [result] = [name for name in opened.namelist() if name.endswith("result.json")]
    assert json.loads(opened.read(result))["screenshot"] == "no base64!"


async def test_names_are_safe_on_every_system_whatever_the_pages_are_called() -> None:
    names = json.loads((require("corpora") / "own" / "hostile_file_names.json").read_text("utf-8"))
    names += json.loads((require("corpora") / "strings" / "blns.json").read_text("utf-8"))
    names += ["http://[", "http://a.test/A", "http://a.test/a", "CON", "nul.txt", ""]
    opened = await archive("search", *[search_row(1, url=name, title=name) for name in names])
    members = opened.namelist()
    assert len({name.lower() for name in members}) == len(members)
    for member in members:
        assert len(member) <= 100
        assert all(SAFE.fullmatch(part) for part in member.split("/")), member
    assert len(json.loads(opened.read("index.json"))["results"]) == len(names)


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "http://a.test/' onmouseover='alert(1)",
    'http://a.test/" onmouseover="alert(1)',
    "http://a.test/<b>",
]


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_the_index_runs_and_loads_nothing(hostile: str) -> None:
    row = search_row(1, url=hostile, title=hostile, snippet=hostile, error=hostile, success=False)
    opened = await archive("search", row, subject=hostile)
    document = parse(opened.read("index.html").decode())
    for element in document.select("*"):
        assert element.tag not in {"script", "img", "iframe", "object", "base", "form"}
        assert not [name for name in element.attrs if name.startswith("on")]
        if element.tag == "a":
            href = element.attr("href") or ""
            assert href.startswith(("http://", "results/", "data.json", "index.json")), href
    assert document.select("h1")[0].text == hostile


async def test_the_index_shows_hostile_strings_as_they_are() -> None:
    strings = json.loads((require("corpora") / "strings" / "blns.json").read_text("utf-8"))
    strings = [text for text in strings if text.strip()]
    opened = await archive("search", *[search_row(1, title=text) for text in strings])
    document = parse(opened.read("index.html").decode())
    assert len(document.select("li")) == len(strings)
    assert not document.select("script, img, iframe, svg, body *[onload]")
