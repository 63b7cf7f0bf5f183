"""Extraction with a language model from a notebook's side: settings, frames, receipts, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.receipts import frames_equal, receipt_of
from tests.local_service import stop
from tests.service.extract.stub_model import KEY, StubModel, always_reply, reply_from_page
from tests.site.server import Site
from webdata_nb import settings
from webdata_nb.errors import InvalidArgument, InvalidRequest
from webdata_nb.settings import LanguageModel
from webdata_nb.toolkit.api import Session, connect, crawl_df, search_df
from webdata_nb.toolkit.requests.options import ScrapeOptionsDict

FIELDS = {"name": {"type": "string"}, "price": {"type": "number"}}
WANTED = {"schema": {"type": "object", "properties": FIELDS}}


@pytest.fixture
def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Give a session on a local service with a data directory of its own."""
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    for engine in ("ONE", "TWO", "THREE"):
        monkeypatch.setenv(f"WEBDATA_ENGINE_{engine}", "local")
    with connect() as made:
        yield made
    stop(settings.current())


def page(name: str, price: int, link: str) -> str:
    return (
        f"<title>Shop</title><main><h1>{name}</h1><p>name: {name}</p><p>price: {price}</p>"
        f'<p>More words about the things that this shop sells. <a href="{link}">on</a></p></main>'
    )


@pytest.mark.usefixtures("connected")
def test_frames_receipts_and_the_cache(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StubModel(site, "/llm/v1")
    site.page("/b", page("Bat", 2, "/"))
    url = site.page("/", page("Ant", 1, "/b"))
    options: ScrapeOptionsDict = {"extract": WANTED}
    without = crawl_df(url, scrape_options=options)
    assert receipt_of(without)["extraction"]["providers"] == {"structured": 2}

    mine = LanguageModel(model.url, KEY, model="m1")
    monkeypatch.setitem(settings.options.llm, "custom", mine)
    wrong = always_reply("nothing of use")
    model.usual = lambda question: (
        wrong(question) if "Bat" in question.page else reply_from_page(question)
    )
    # Another identity: what was cached without a model is no answer now.
    pages = crawl_df(url, scrape_options=options)
    assert receipt_of(pages)["cache"] == "miss"
    assert pages["extract"].tolist() == [{"name": "Ant", "price": 1.0}, None]
    assert pages["success"].tolist() == [True, False]
    assert pages["error"].iloc[1].startswith("extraction failed (invalid): ")
    assert pages["markdown"].notna().all()
    summed = receipt_of(pages)["extraction"]
    assert summed["failed"] == {"invalid": 1}
    assert (summed["calls"], summed["prompt_tokens"]) == (3, 300)
    assert "1 ok, 1 failed" in receipt_of(pages)["line"]
    assert "extraction failed: 1 invalid" in receipt_of(pages)["line"]
    assert frames_equal(pages, crawl_df(url, scrape_options=options))

    model.usual = reply_from_page
    named = {**WANTED, "prompt": "the thing", "provider": "custom", "model": "m2"}
    found = search_df("Ant", num_results=1, extract=named)
    assert found["extract"].tolist() == [{"name": "Ant", "price": 1.0}]
    assert model.requests[-1].model == "m2"
    assert "extraction failed" not in receipt_of(found)["line"]

    with pytest.raises(InvalidRequest, match="WEBDATA_LLM_OPENAI_KEY"):
        search_df("Ant", extract={"prompt": "p", "provider": "openai"})
    with pytest.raises(InvalidArgument, match="context must be at least 1000") as caught:
        settings.options.llm["custom"] = LanguageModel(model.url, KEY, context=3)
    assert KEY not in str(caught.value)

    texts = [
        repr(settings.current()),
        repr(settings.options),
        str(receipt_of(pages)),
        str(receipt_of(found)),
    ]
    assert [text for text in texts if KEY in text] == []
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert files
    assert [each.name for each in files if KEY.encode() in each.read_bytes()] == []
