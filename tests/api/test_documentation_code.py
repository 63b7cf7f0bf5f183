"""The Python code in the README and the guide runs, page by page.

Blocks marked `py` instead of `python` need what these tests lack, such as a Dask cluster.
"""

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
from webdata_nb.contract.events import sign

CHECKOUT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs" / "guide").glob("*.md"))]


def code_blocks(page: Path) -> list[str]:
    """Return the Python blocks of a page; of an interactive session, its input."""
    sources: list[str] = []
    lines: list[str] | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if lines is None and line.strip() in {"```python", "```pycon"}:
            lines = []
        elif lines is not None and line.strip() == "```":
            session_input = [each[4:] for each in lines if each.startswith((">>> ", "... "))]
            sources.append("\n".join(session_input or lines))
            lines = None
        elif lines is not None:
            lines.append(line)
    return sources


PAGES_WITH_CODE: Final = [page for page in PAGES if code_blocks(page)]


def initial_namespace(page: Path) -> dict[str, Any]:
    """Return the variables that the code of a page uses without defining them."""
    pages = webdata_nb.crawl_df(SITE, scrape_options={"formats": ["markdown", "links"]})
    hits = webdata_nb.search_df("q", formats=[])
    return {
        "display": lambda *_: None,
        "url": SITE,
        "shop": SITE + "shop/",
        "pages": pages,
        "df": pages,
        "docs": pages,
        "results": hits,
        "last_week": hits,
        "today": hits,
        "ads": webdata_nb.creatives_df("AR1"),
        "request_body": b"{}",
        "request_headers": {},
        "secret": "s",
        "__name__": page.stem,
    }


@pytest.fixture
def stub_service(
    service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WireService]:
    """Connect the process to a stub service, in an empty working folder."""
    monkeypatch.setenv("WEBDATA_BASE_URL", service.url)
    monkeypatch.setenv("WEBDATA_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    service.has_receipts = True
    (tmp_path / "search-aurora-1a2b3c4d.csv").write_text("id,rank,url\r\n", encoding="utf-8")
    (tmp_path / "fixtures").mkdir()
    variables = dict(os.environ)
    with webdata_nb.connect():
        yield service
    # The code of a page may set variables, which must not reach other tests.
    os.environ.clear()
    os.environ.update(variables)


def send_webhooks(service: WireService, stop: threading.Event) -> None:
    """Send the webhook of every job that has one, once."""
    sent: set[str] = set()
    while not stop.wait(0.02):
        for job_id, job in list(service.jobs.items()):
            if job_id in sent or not job.body.get("webhook_url"):
                continue
            sent.add(job_id)
            event = {"event": "job.completed", "job_id": job_id, "job_type": job.kind}
            counts = {"status": "completed", "total_pages": 5, "completed_pages": 5}
            body = orjson.dumps({**event, **counts})
            headers = {
                "Content-Type": "application/json",
                "X-Service-Event": "job.completed",
                "X-Service-Signature": sign(body, job.body["webhook_secret"]),
            }
            httpx.post(job.body["webhook_url"], content=body, headers=headers).raise_for_status()


@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=lambda page: page.stem)
def test_code_of_page_runs(
    page: Path, stub_service: WireService, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = initial_namespace(page)
    connect = webdata_nb.connect
    namespace["connect"] = lambda **_: connect()
    monkeypatch.setattr(webdata_nb, "connect", namespace["connect"])
    stop = threading.Event()
    sender = threading.Thread(target=send_webhooks, args=(stub_service, stop))
    sender.start()
    try:
        for number, source in enumerate(code_blocks(page)):
            filename = f"{page.name}, block {number}"
            code = compile(source, filename, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, namespace)
            if inspect.iscoroutine(result):
                asyncio.run(result)
    finally:
        stop.set()
        sender.join()


def test_guide_contains_code() -> None:
    assert len(PAGES_WITH_CODE) >= 10
    assert sum(len(code_blocks(page)) for page in PAGES_WITH_CODE) >= 20
