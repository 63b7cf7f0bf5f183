"""Crawls follow the links of text documents, and their receipts account for each URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.service.conftest import Api
from tests.site.server import Site

INDEX = """---
title: The manual
author: Ann
date: 2026-02-03
---

# Welcome

[guide](guide.md), [guide again](./guide.md#part), [data](data.csv), ![picture](p.png),
[secret](/secret/a.md), [other](http://other.test/x.md) and [missing](gone.md).

```sh
curl http://127.0.0.1/never
```
"""


def reply(text: str, content_type: str | None) -> Callable[[web.BaseRequest], web.Response]:
    headers = {} if content_type is None else {"Content-Type": content_type}
    return lambda _: web.Response(body=text.encode(), headers=headers)


def manual(site: Site) -> None:
    """Serve documents of all text types, each of which leads to the next one."""
    site.robots("User-agent: *\nDisallow: /secret\n")
    site.page("/docs/index.md", reply(INDEX, "text/markdown"))
    site.page("/docs/guide.md", reply("# Guide\n\n[part](part.rst)", "text/plain"))
    part = f"Part\n====\n\n`notes <{site.at('/docs/notes.txt')}>`_\n"
    site.page("/docs/part.rst", reply(part, "text/plain"))
    site.page("/docs/notes.txt", reply(f"Notes\n\n{site.at('/docs/feed.json')}.", "text/plain"))
    site.page("/docs/data.csv", reply(f"name,url\na,{site.at('/docs/api.json')}\n", "text/csv"))
    site.page(
        "/docs/api.json",
        reply(f'{{"title": "API", "next": "{site.at("/docs/last.md")}"}}', "application/json"),
    )
    site.page(
        "/docs/feed.json",
        reply(
            '{"version": "https://jsonfeed.org/version/1.1", "title": "Feed",'
            ' "items": [{"id": "1", "title": "Entry", "url": "entry.md"}]}',
            "application/feed+json",
        ),
    )
    site.page("/docs/entry.md", reply("## Entry\n\ntext", "text/x-markdown; charset=utf-8"))
    site.page("/docs/last.md", reply("# Last\n\n[back](index.md)", "application/octet-stream"))


def rows_of(result: dict[str, Any]) -> list[tuple[str, str | None, int]]:
    return [
        (row["url"].rpartition("/")[2], row["title"], row["depth"])
        for row in result["data"]
        if row["success"]
    ]


@pytest.mark.parametrize(
    "strategy",
    [
        "bfs",
        pytest.param("dfs", marks=pytest.mark.slow),
        pytest.param("bff", marks=pytest.mark.slow),
    ],
)
async def test_links_of_text_documents_are_followed(api: Api, site: Site, strategy: str) -> None:
    manual(site)
    result = await api.run_job("crawl", url=site.at("/docs/index.md"), crawl_strategy=strategy)
    assert set(rows_of(result)) == {
        ("index.md", "The manual", 0),
        ("guide.md", "Guide", 1),
        ("data.csv", None, 1),
        ("part.rst", "Part", 2),
        ("api.json", "API", 2),
        ("notes.txt", "Notes", 3),
        ("last.md", "Last", 3),
        ("feed.json", "Feed", 4),
        ("entry.md", "Entry", 5),
    }
    assert result["receipt"]["counts"] == {
        "fetched": 9,
        "failed:http_404": 1,
        "robots": 1,
        "scope": 1,
    }
    # One request for each row; none for the picture or the code.
    rows = [f"/docs/{url}" for url, _, _ in rows_of(result)]
    assert sorted(site.paths) == sorted(["/docs/gone.md", *rows])


async def test_depth_and_budget_apply_to_links_of_documents(api: Api, site: Site) -> None:
    manual(site)
    url = site.at("/docs/index.md")
    shallow = await api.run_job("crawl", url=url, max_depth=1)
    assert {url for url, _, _ in rows_of(shallow)} == {"index.md", "guide.md", "data.csv"}
    assert shallow["receipt"]["counts"]["depth"] == 2
    short = await api.run_job("crawl", url=url, max_pages=1)
    assert short["receipt"]["counts"] == {"fetched": 1, "over_max_pages": 4, "scope": 1}


async def test_rows_of_documents_have_formats_and_metadata(api: Api, site: Site) -> None:
    manual(site)
    formats = ["markdown", "html", "links", "headings"]
    result = await api.run_job(
        "crawl",
        url=site.at("/docs/index.md"),
        max_pages=1,
        scrape_options={"formats": formats, "only_main_content": True},
    )
    [row] = result["data"]
    assert row["markdown"].startswith("# Welcome\n\n[guide](")
    assert f"[data]({site.at('/docs/data.csv')})" in row["markdown"]
    assert row["markdown"].endswith("```sh\ncurl http://127.0.0.1/never\n```")
    assert row["links"][0] == site.at("/docs/guide.md")
    assert len(row["links"]) == 6
    assert row["headings"] == [{"level": 1, "text": "Welcome", "anchor": None}]
    assert "title:" not in row["html"]
    expected = {"title": "The manual", "author": "Ann", "published": "2026-02-03"}
    assert row["metadata"] | expected == row["metadata"]
    assert row["metadata"]["front_matter"]["date"] == "2026-02-03"


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/markdown; charset=latin1",
        pytest.param("", marks=pytest.mark.slow),
        pytest.param("text/plain", marks=pytest.mark.slow),
    ],
)
async def test_types_of_servers_that_do_not_know_markdown(
    api: Api, site: Site, content_type: str | None
) -> None:
    site.page("/README.md", reply("# Grüße\n\n[a](a.md)", content_type))
    site.page("/a.md", reply("# A", content_type))
    result = await api.run_job("crawl", url=site.at("/README.md"))
    assert [title for _, title, _ in rows_of(result)] == [
        "Grüße" if "latin1" not in (content_type or "") else "GrÃ¼ÃŸe",
        "A",
    ]


async def test_accept_header_of_the_caller_asks_for_markdown(api: Api, site: Site) -> None:
    def negotiated(request: web.BaseRequest) -> web.Response:
        if "text/markdown" in request.headers["Accept"]:
            return web.Response(text="# A\n\n[b](b)", content_type="text/markdown")
        return web.Response(text="<title>A</title><a href=b>b</a>", content_type="text/html")

    for path in ("/a", "/b"):
        site.page(path, negotiated)
    headers = {"Accept": "text/markdown, text/html;q=0.9"}
    for sent, rung in ((headers, "markdown"), ({}, "full")):
        result = await api.run_job(
            "crawl", url=site.at("/a"), scrape_options={"headers": sent}, max_pages=1
        )
        [row] = result["data"]
        assert row["title"] == "A"
        assert row["metadata"]["rung"] == rung
        assert row["metadata"]["content_type"].startswith("text/markdown" if sent else "text/html")
