"""The page that shows the document: readable without a key, made of this service's files alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.openapi.operations import DOCUMENT
from tests.openapi.service_process import team
from tests.service.conftest import open_service
from webdata_nb.contract import paths
from webdata_nb.service.browser.chromium import find_program

pytestmark = pytest.mark.slow

ANONYMOUS = {"Authorization": ""}


async def test_docs_page_needs_no_key_and_no_other_host(tmp_path: Path) -> None:
    async with open_service(tmp_path, "team") as api:
        page = await api.http.get(paths.DOCS, headers=ANONYMOUS)
        assert page.status_code == 200
        assert "default-src 'self'" in page.headers["content-security-policy"]
        named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert {f"{paths.DOCS}/{name}" for name in paths.DOCS_FILES} == {f"/{x}" for x in named}
        for name in named:
            answer = await api.http.get(f"/{name}", headers=ANONYMOUS)
            assert answer.status_code == 200, name
            assert answer.content, name
        assert (await api.http.get(f"{paths.DOCS}/LICENSE", headers=ANONYMOUS)).status_code == 401


def test_browser_shows_every_operation_without_other_hosts(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    program = find_program()
    if program is None:
        pytest.skip("no Chromium on this machine")
    urls: list[str] = []
    complaints: list[str] = []
    with team(tmp_path) as served, playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.on("request", lambda request: urls.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(served.url + paths.DOCS)
        page.wait_for_selector(".opblock")
        operations = {
            each.text_content() for each in page.query_selector_all(".opblock-summary-path")
        }
        page.screenshot(path=str(tmp_path / "docs.png"))
        browser.close()
    assert len(operations) == len(DOCUMENT["paths"]) + len(DOCUMENT["webhooks"])
    assert [url for url in urls if not url.startswith((served.url, "data:"))] == []
    assert complaints == []
