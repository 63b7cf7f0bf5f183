"""What of a rendered page is signed: its document, and nothing that the browser requests."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.requirements import require, require_module
from tests.service.conftest import open_service
from tests.service.signing.keys import AGENT, new_key_file, published, received_at
from tests.service.signing.verifier import Verifier
from tests.site.server import Site
from webdata_nb.service.signing.request_signer import SIGNATURE_HEADERS

pytestmark = pytest.mark.slow

SCRIPTED = """<!doctype html><title>App</title><main id="root"><p>Words.</p></main>
<img src="/picture.png"><script>
fetch("/data.json").then(reply => reply.json()).then(data => {
  document.getElementById("root").textContent = data.words;
});
</script>"""


async def test_only_the_document_of_a_rendered_page_is_signed(tmp_path: Path, site: Site) -> None:
    require("chromium")
    require_module("playwright")
    keys = new_key_file(tmp_path)
    site.page("/", SCRIPTED)
    words = json.dumps({"words": "Words that a script has brought."})
    site.page("/data.json", words, headers={"Content-Type": "application/json"})
    async with open_service(tmp_path / "data", signing_keys=keys.path) as api:
        options = {"render": True, "only_main_content": False}
        reply = await api.run_job("crawl", url=site.url, max_pages=1, scrape_options=options)
    assert "a script has brought" in reply["data"][0]["markdown"]
    assert reply["receipt"]["signature_agent"] == AGENT
    verifier = Verifier(lambda _agent: published(keys, time.time()))
    for hit in site.requests:
        headers = {name.lower(): value for name, value in hit.headers.items()}
        if hit.path in {"/", "/robots.txt"}:
            verifier.verify_request(hit.method, hit.path, headers, received_at(hit))
        else:
            assert not SIGNATURE_HEADERS & headers.keys(), hit.path
    assert {"/data.json", "/picture.png"} < {hit.path for hit in site.requests}
