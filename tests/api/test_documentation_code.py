"""Every piece of Python in the README and the guide runs, page by page, as a reader runs it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import pytest

import webdata_nb
from tests.api.receipts import SITE
from tests.wire_service import KEY, WireService
from webdata_nb.contract.signature import sign

CHECKOUT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs" / "guide").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    """Return the Python of a page; of a session with prompts, what is typed."""
    found: list[str] = []
    inside: list[str] | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if inside is None and line.strip() in {"```python", "```pycon"}:
            inside = []
        elif inside is not None and line.strip() == "```":
            typed = [each[4:] for each in inside if each.startswith((">>> ", "... "))]
            found.append("\n".join(typed or inside))
            inside = None
        elif inside is not None:
            inside.append(line)
    return found


TOLD: Final = [page for page in PAGES if blocks(page)]


def names(page: Path) -> dict[str, Any]:
    """Return what the text of a page takes for granted: addresses, and frames got before."""
    pages = webdata_nb.crawl_df(SITE, scrape_options={"formats": ["markdown", "links"]})
    found = webdata_nb.search_df("q", formats=[])
    return {
        "display": lambda *_: None,
        "url": SITE,
        "shop": SITE + "shop/",
        "pages": pages,
        "df": pages,
        "docs": pages,
        "results": found,
        "last_week": found,
        "today": found,
        "ads": webdata_nb.creatives_df("AR1"),
        "request_body": b"{}",
        "request_headers": {},
        "secret": "s",
        "__name__": page.stem,
    }


@pytest.fixture
def reader(
    service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WireService]:
    """Give a reader a service, whatever address the text connects to, and an empty folder."""
    monkeypatch.setenv("WEBDATA_BASE_URL", service.url)
    monkeypatch.setenv("WEBDATA_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    service.has_receipts = True
    (tmp_path / "search-aurora-1a2b3c4d.csv").write_text("id,rank,url\r\n", encoding="utf-8")
    (tmp_path / "fixtures").mkdir()
    variables = dict(os.environ)
    with webdata_nb.connect():
        yield service
    # A page may tell its reader to set some, which other tests must not find.
    os.environ.clear()
    os.environ.update(variables)


def delivered(service: WireService, over: threading.Event) -> None:
    """Do what a service does at the end of a job that asked to be told."""
    told: set[str] = set()
    while not over.wait(0.02):
        for job_id, job in list(service.jobs.items()):
            if job_id in told or not job.body.get("webhook_url"):
                continue
            told.add(job_id)
            event = {"event": "job.completed", "job_id": job_id, "job_type": job.kind}
            counts = {"status": "completed", "total_pages": 5, "completed_pages": 5}
            body = orjson.dumps({**event, **counts})
            headers = {
                "Content-Type": "application/json",
                "X-Service-Event": "job.completed",
                "X-Service-Signature": sign(body, job.body["webhook_secret"]),
            }
            httpx.post(job.body["webhook_url"], content=body, headers=headers).raise_for_status()


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page.stem)
def test_its_python_runs(page: Path, reader: WireService, monkeypatch: pytest.MonkeyPatch) -> None:
    given = names(page)
    connect = webdata_nb.connect
    given["connect"] = lambda **_: connect()
    monkeypatch.setattr(webdata_nb, "connect", given["connect"])
    over = threading.Event()
    teller = threading.Thread(target=delivered, args=(reader, over))
    teller.start()
    try:
        for number, source in enumerate(blocks(page)):
            where = f"{page.name}, block {number}"
            code = compile(source, where, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            made = eval(code, given)
            if inspect.iscoroutine(made):
                asyncio.run(made)
    finally:
        over.set()
        teller.join()


def test_the_pages_hold_python() -> None:
    assert len(TOLD) >= 10
    assert sum(len(blocks(page)) for page in TOLD) >= 25
