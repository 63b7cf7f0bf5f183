"""No secret of a notebook is in anything that it, or its local service, shows or writes."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.local_service import stop
from tests.planted_secrets import PlantedSecrets, files
from tests.service.creatives.stubs import MetaStub
from tests.service.extract.stub_model import StubModel
from tests.service.search.stubs import Result, stubs
from tests.site.server import Site
from tests.wire_service import JobScript, WireService, search_rows
from webdata_nb import settings
from webdata_nb.errors import WebdataError
from webdata_nb.settings import options
from webdata_nb.toolkit.api import (
    Session,
    connect,
    crawl_df,
    crawl_job,
    creatives_df,
    engines_df,
    export_df,
    jobs_df,
    record,
    replay,
    search_df,
    search_job,
    why,
)
from webdata_nb.toolkit.client.client import Client

pytestmark = pytest.mark.slow

PAGE = "<title>Shop</title><main><h1>Ant</h1><p>name: Ant</p><p>Words enough to be read.</p></main>"
KINDS = ("header", "cookie", "webhook_secret", "webhook_url", "brave", "llm", "creatives", "proxy")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.fixture
def planted_secrets() -> PlantedSecrets:
    return PlantedSecrets(*KINDS, "key")


@pytest.fixture
def proxy() -> Iterator[Site]:
    with Site() as running:
        running.under("http://shop.test/", PAGE)
        yield running


@pytest.fixture
def home(
    tmp_path: Path,
    site: Site,
    proxy: Site,
    planted_secrets: PlantedSecrets,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """Set everything up that has a key, by variables, and give the folder of all that is kept."""
    monkeypatch.setattr("tests.service.search.stubs.KEY", planted_secrets["brave"])
    monkeypatch.setattr("tests.service.creatives.stubs.TOKEN", planted_secrets["creatives"])
    engine = stubs()["brave"]
    engine.served = [Result("http://shop.test/", "Shop", "")]
    secret = {
        "WEBDATA_HOME": str(tmp_path),
        "WEBDATA_ENGINE_ONE": "brave",
        "WEBDATA_BRAVE_URL": engine.on(site),
        "WEBDATA_BRAVE_KEY": planted_secrets["brave"],
        "WEBDATA_LLM_CUSTOM_URL": StubModel(site, "/llm/v1").url,
        "WEBDATA_LLM_CUSTOM_KEY": planted_secrets["llm"],
        "WEBDATA_LLM_CUSTOM_MODEL": "m",
        "WEBDATA_CREATIVES_SOURCE": "meta_ad_library",
        "WEBDATA_META_AD_LIBRARY_URL": MetaStub(site, count=2).home,
        "WEBDATA_META_AD_LIBRARY_KEY": planted_secrets["creatives"],
        "WEBDATA_PROXY": proxy.url.replace("//", f"//ann:{planted_secrets.plain('proxy')}@").rstrip(
            "/"
        ),
        "WEBDATA_LOG": "debug",
    }
    for name, value in secret.items():
        monkeypatch.setenv(name, value)
    yield tmp_path
    stop(settings.current())


class ObjectOutputs:
    """What is shown of objects, in every way in which Python and a notebook show them."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}

    def add(self, name: str, output: Any) -> None:
        texts = [repr(output), str(output), f"{output}"]
        texts += [repr(getattr(output, "attrs", "")), repr(getattr(output, "__dict__", ""))]
        for method in ("_repr_html_", "_repr_mimebundle_", "to_csv"):
            if callable(show := getattr(output, method, None)):
                texts.append(str(show()))
        self.texts[name] = "\n".join(texts).encode()

    def failure(self, name: str, call: Callable[[], Any]) -> None:
        """Run what fails, and add the error with its traceback and all that it holds."""
        with pytest.raises(WebdataError) as caught:
            call()
        error = caught.value
        self.add(name, error)
        lines = traceback.format_exception(error)
        self.texts[f"{name}, its traceback"] = "".join([*lines, repr(vars(error))]).encode()


def secrets_of(planted_secrets: PlantedSecrets) -> Any:
    return {
        "headers": {"X-Key": planted_secrets["header"]},
        "cookies": {"sid": planted_secrets.plain("cookie")},
    }


def test_a_notebook_and_its_local_service(
    home: Path,
    site: Site,
    proxy: Site,
    planted_secrets: PlantedSecrets,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    outputs, visit = ObjectOutputs(), secrets_of(planted_secrets)
    hook: dict[str, Any] = {
        "webhook_url": f"{site.at('/hook')}?key={planted_secrets.plain('webhook_url')}",
        "webhook_secret": planted_secrets["webhook_secret"],
    }
    extract: Any = {"schema": SCHEMA}
    with connect() as session, record(home / "tape"):
        pages = crawl_df("http://shop.test/", extract=extract, max_pages=2, scrape_options=visit)
        found = search_df("ants", extract=extract, **visit)
        ads = creatives_df(MetaStub.advertiser, max_rows=2)
        started_job = search_job("again", **visit, **hook)
        frames = {"pages": pages, "found": found, "ads": ads, "again": started_job.df()}
        crawled = crawl_job("http://shop.test/", max_pages=1, **hook)
        crawled.wait()
        frames |= {"jobs": jobs_df(), "engines": engines_df(), "why": why(pages, "http://x.test/")}
        frames["exported"] = export_df(started_job.job_id)
        for name, output in frames.items():
            outputs.add(name, output)
        for name, output in {"job": started_job, "crawl": crawled, "session": session}.items():
            outputs.add(name, output)
        outputs.failure("wrong", lambda: creatives_df("AR1"))
        outputs.failure(
            "refused", lambda: search_df("q", headers={"X Y": planted_secrets["header"]})
        )
        outputs.failure(
            "cookie", lambda: search_df("q", cookies={"a": f"{planted_secrets['cookie']};"})
        )
        outputs.failure("late", lambda: search_df("soon", timeout=0.000001, **visit))
        outputs.add("settings", settings.current())
        outputs.add("options", options)
    with replay(home / "tape"):
        outputs.add("replayed", search_df("ants", extract=extract, **visit))
    # Each of them was in use.
    assert list(pages["extract"]) == list(found["extract"]) == [{"name": "Ant"}]
    assert len(ads) == 2
    assert all("Proxy-Authorization" in hit.headers for hit in proxy.requests)
    assert {planted_secrets["header"]} <= {hit.headers.get("X-Key") for hit in proxy.requests}
    assert site.hits(f"/hook?key={planted_secrets.plain('webhook_url')}")
    open_ = files(home)
    stop(settings.current())
    closed = files(home)
    for service in (open_, closed):
        names = " ".join(service)
        assert all(each in names for each in ("jobs.sqlite", ".parquet", "tape/", ".log"))
        assert planted_secrets.traces(service) == []
        outside = {name: data for name, data in service.items() if "jobs.sqlite" not in name}
        assert planted_secrets.traces(outside) == []
    assert planted_secrets.traces(outputs.texts) == []
    assert planted_secrets.traces({"log": caplog.text.encode()}) == []


def test_a_notebook_and_a_service_elsewhere(
    tmp_path: Path,
    planted_secrets: PlantedSecrets,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The bearer key, in everything that a session shows and keeps, and where a start fails."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    monkeypatch.setenv("WEBDATA_API_KEY", planted_secrets.plain("key"))
    outputs, visit = ObjectOutputs(), secrets_of(planted_secrets)
    with WireService() as service:
        service.search = JobScript(search_rows(2))
        service.api_keys = {planted_secrets.plain("key")}
        with connect(base_url=service.url) as session, record(tmp_path / "tape"):
            outputs.add("found", session.search_df("q", **visit))
            outputs.add("job", session.search_job("again", **visit))
            outputs.add("session", session)
            outputs.add("settings", settings.current())
        assert {each.headers["authorization"] for each in service.requests} == {
            f"Bearer {planted_secrets.plain('key')}"
        }
        outputs.add("client", Client(service.url, planted_secrets.plain("key")))
        with Session(base_url=service.url, api_key=f"not-{planted_secrets.plain('key')}") as wrong:
            outputs.failure("401", lambda: wrong.search_df("other"))
        # A session is pickled with its key, as decided: for another process of the same person.
        assert planted_secrets.plain("key").encode() in pickle.dumps(wrong)
    outputs.failure("gone", lambda: search_df("nobody there", **visit))
    written = {**files(tmp_path), **outputs.texts, "log": caplog.text.encode()}
    assert any("parquet" in name for name in written)
    assert planted_secrets.traces(written) == []
