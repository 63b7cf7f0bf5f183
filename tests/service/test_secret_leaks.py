"""No secret is in any reply, stream, export, log line, metric or file, whatever goes wrong."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from aiohttp import web
from prometheus_client import generate_latest

from tests.openapi.operations import DOCUMENT
from tests.planted_secrets import PlantedSecrets, unpacked
from tests.service.conftest import Api, open_service
from tests.service.creatives.stubs import MetaStub
from tests.service.extract.stub_model import StubModel, always_fail, reply_from_page
from tests.service.job_stores import store_of, stored_bytes
from tests.service.routes.test_search import magazine
from tests.service.search.stubs import Result, stubs
from tests.service.webhooks.endpoint import Endpoint
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.contract.operator_views import VIEWS
from webdata_nb.service.encryption import key_hash
from webdata_nb.service.ledger import Terms
from webdata_nb.service.settings import ServiceSettings

pytestmark = pytest.mark.slow

KEYED = sorted(name for name, stub in stubs().items() if stub.keyed)
JOB = ("webhook_secret", "webhook_url", "header", "cookie")
SESSION = ("llm", "creatives", "proxy", *KEYED)
LEASE = {"X-Webdata-Lease": "l1"}
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}


def job_secrets(planted_secrets: PlantedSecrets, endpoint: Endpoint) -> dict[str, Any]:
    """Return the secrets of a job."""
    address = endpoint.url.partition("?")[0]
    return {
        "webhook_url": f"{address}?key={planted_secrets.plain('webhook_url')}",
        "webhook_secret": planted_secrets["webhook_secret"],
    }


def request_secrets(planted_secrets: PlantedSecrets) -> dict[str, Any]:
    return {
        "headers": {"X-Key": planted_secrets["header"]},
        "cookies": {"sid": planted_secrets.plain("cookie")},
    }


class Providers:
    """Every provider that asks for a key, each of which holds it up to whoever asks."""

    def __init__(self, site: Site, planted_secrets: PlantedSecrets) -> None:
        self.stubs = stubs()
        self.access = {}
        for name in KEYED:
            stub = self.stubs[name]
            stub.path = f"/{name}{stub.path}"
            stub.other = self._mirror(planted_secrets[name])
            self.access[name] = {"url": stub.on(site), "key": planted_secrets[name]}
        plain = self.stubs["searxng"]
        plain.path = "/last"
        plain.served = [Result(site.at(path), "Northern lights", "") for path in ("/", "/rain")]
        self.access["searxng"] = {"url": plain.on(site)}
        self.model = StubModel(site, "/llm/v1")
        self.ads = MetaStub(site, count=3)
        self.ads.fault = lambda _number: web.Response(status=500, text=planted_secrets["creatives"])
        # Each model and page goes there directly: it is asked by nobody.
        self.settings = {
            "engines": dict.fromkeys(ENGINES, (*KEYED, "searxng")),
            "providers": self.access,
            "llm": {"custom": {"url": self.model.url, "key": planted_secrets["llm"], "model": "m"}},
            "creatives": {
                "source": "meta_ad_library",
                "url": self.ads.home,
                "key": planted_secrets["creatives"],
            },
        }

    @staticmethod
    def _mirror(key: str) -> Any:
        return lambda _request: web.Response(status=500, text=key, headers={"X-Seen": key})


async def bind(api: Api, settings: dict[str, Any]) -> None:
    api.http.headers.update(LEASE)
    await api.http.put("/local/leases/l1", json={})
    assert (await api.http.put("/local/leases/l1/settings", json=settings)).status_code == 204


async def wait_for_deliveries(api: Api, job_id: str) -> str:
    """Wait until everything that a job tells was sent, or given up; return a delivery."""
    async with asyncio.timeout(60):
        while True:
            reply = await api.get("/v1/webhooks/deliveries", params={"job_id": job_id})
            if {each["status"] for each in reply["deliveries"]} & {"delivered", "failed"}:
                return str(reply["deliveries"][0]["delivery_id"])
            await asyncio.sleep(0.02)


async def readable_replies(api: Api, jobs: list[str], delivery: str) -> dict[str, bytes]:
    """Ask each operation of the document that reads, for each job, and those of the job's end."""
    replies = []
    for path, methods in DOCUMENT["paths"].items():
        for job_id in jobs if "{job_id}" in path else jobs[:1]:
            names = {"job_id": job_id, "sha256": "0" * 64, "delivery_id": delivery, "view": "jobs"}
            if "get" in methods:
                for form in ("json", "csv", "zip") if path.endswith("export") else ("",):
                    params = {"format": form} if form else {"query": "Fulmar"}
                    query = params if form or path == paths.ADVERTISERS else {}
                    replies.append(("GET", path.format(**names), query))
    replies += [
        ("POST", f"/v1/jobs/{job}/{what}", {}) for job in jobs for what in ("retry", "cancel")
    ]
    replies.append(("POST", f"/v1/webhooks/deliveries/{delivery}/replay", {}))
    pages = ["", *(f"/{view}" for view in VIEWS), *(f"/jobs/{job}" for job in jobs)]
    replies += [("GET", f"{paths.OPERATOR_PAGE}{page}", {}) for page in pages]
    replies += [("GET", paths.fill(paths.OPERATOR_VIEW, view=view), {}) for view in VIEWS]
    found = {}
    for method, path, params in replies:
        answer = await api.http.request(method, path, params=params)
        found[f"{method} {path} {params} -> {answer.status_code}"] = response_bytes(answer)
    assert sum("-> 200" in name for name in found) >= 25
    return found


def response_bytes(answer: httpx.Response) -> bytes:
    """Return all of an answer, archives unpacked, with its headers."""
    return str(answer.headers).encode() + answer.content + unpacked(answer.content)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        magazine(running)
        yield running


async def test_job_secrets_are_not_exposed(
    tmp_path: Path, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    planted_secrets = PlantedSecrets(*JOB, *SESSION)
    providers = Providers(site, planted_secrets)
    found: dict[str, bytes] = {}
    extract = {"extract": {"schema": SCHEMA, "prompt": "the title"}}
    async with (
        Endpoint(answers=[404, 204, 404]) as endpoint,
        open_service(tmp_path / "data") as api,
    ):
        await bind(api, providers.settings)
        hook, visit = job_secrets(planted_secrets, endpoint), request_secrets(planted_secrets)
        done = [await api.run_job("search", query="northern lights", **visit, **extract, **hook)]
        providers.model.usual = always_fail(401)  # which holds up its key, too
        done.append(
            await api.run_job("crawl", url=site.url, scrape_options={**visit, **extract}, **hook)
        )
        providers.model.usual = reply_from_page
        done.append(await api.run_job("crawl", url="http://127.0.0.1:1024/", **hook))
        through = f"http://ann:{planted_secrets.plain('proxy')}@127.0.0.1:9"
        await bind(api, {**providers.settings, "proxy": through})
        done.append(
            await api.run_job("crawl", url="http://unknown.test/", scrape_options=visit, **hook)
        )
        reply = await api.http.post(paths.CREATIVES, json={"advertiser_id": MetaStub.advertiser})
        found["creatives"] = response_bytes(reply)
        deliveries = [await wait_for_deliveries(api, job["job_id"]) for job in done]
        test = await api.http.post(paths.WEBHOOK_TEST, json=hook)
        found["webhook test"] = response_bytes(test)
        job_ids = [job["job_id"] for job in done]
        found |= await readable_replies(api, job_ids, deliveries[0])
        found["metrics"] = await asyncio.to_thread(generate_latest, api.running.metrics.registry)
        found |= {f"webhook {n}: body": got.body for n, got in enumerate(endpoint.webhooks)}
        # While the store is open, and so while SQLite has a write-ahead log.
        stored = stored_bytes(tmp_path / "data")
        assert any(name.endswith("-wal") or name == "table job" for name in stored)
        assert planted_secrets.traces(stored) == []
    # Each of them was in use.
    assert site.hits("/rain")[0].headers["X-Key"] == planted_secrets["header"]
    assert [len(providers.stubs[name].requests) > 0 for name in KEYED] == [True] * len(KEYED)
    assert (
        providers.model.requests[0].headers["Authorization"] == f"Bearer {planted_secrets['llm']}"
    )
    assert providers.ads.searches
    assert [each["provider_used"] for each in done if "provider_used" in each] == ["searxng"]
    assert planted_secrets.traces(found) == []
    lines = {f"log {n}": line.encode() for n, line in enumerate(caplog.text.splitlines())}
    assert len(lines) > 20
    assert planted_secrets.traces(lines) == []
    assert planted_secrets.traces(stored_bytes(tmp_path / "data")) == []


async def test_api_key_is_not_stored_or_logged(
    tmp_path: Path, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    planted_secrets = PlantedSecrets("key", "wrong", "url")
    key = f"wdk_{planted_secrets.plain('key')}"
    async with store_of(tmp_path) as store:
        accounts = store.accounts
        await accounts.add("a", "alice", Terms("team", 100, 2), now=time())
        await accounts.add_key("key_a", "a", "laptop", key_hash(key), now=time())
    found = {}
    async with open_service(tmp_path, "team", allow_networks=("127.0.0.1/32",)) as api:
        for bearer in (key, planted_secrets.plain("wrong")):
            head = {"Authorization": f"Bearer {bearer}"}
            start = await api.http.post(paths.CRAWL, json={"url": site.url}, headers=head)
            found[f"start {start.status_code}"] = response_bytes(start)
            for path in (paths.JOBS, paths.USAGE, f"/v1/crawl/{planted_secrets.plain('url')}"):
                answer = await api.http.get(path, headers=head)
                found[f"{path} {answer.status_code}"] = response_bytes(answer)
        found["metrics"] = await asyncio.to_thread(generate_latest, api.running.metrics.registry)
    # The test's own client logs the addresses that it asks.
    lines = [each.getMessage() for each in caplog.records if not each.name.startswith("http")]
    found |= {"log": "\n".join(lines).encode(), **stored_bytes(tmp_path)}
    assert {"start 200", "start 401", "/v1/usage 200", "/v1/usage 401"} <= set(found)
    assert planted_secrets.traces(found) == []


def test_no_repr_of_settings_shows_a_secret(tmp_path: Path) -> None:
    planted_secrets = PlantedSecrets("key", "llm", "creatives", "proxy", "sealing", "upstream")
    session = SessionSettings.model_validate(
        {
            "providers": {"brave": {"key": planted_secrets["key"]}},
            "llm": {"custom": {"key": planted_secrets["llm"]}},
            "creatives": {"key": planted_secrets["creatives"]},
            "proxy": f"http://ann:{planted_secrets.plain('proxy')}@proxy.test:1",
        }
    )
    whole = ServiceSettings(
        data_dir=tmp_path,
        providers=session,
        secret_keys=(planted_secrets["sealing"],),
        proxy=f"http://ann:{planted_secrets.plain('upstream')}@proxy.test:1",
    )
    assert (
        planted_secrets.traces({"repr": repr(whole).encode(), "str": str(session).encode()}) == []
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"webhook_secret": ["{secret}"]},
        {"webhook_secret": "{secret}" * 200},
        {"webhook_url": "http://example.com/?{secret}"},
        {"webhook_url": "https://x:{secret}@example.com/"},
        {"headers": {"X Y": "{secret}"}},
        {"headers": {"X": "{secret}\n"}},
        {"cookies": {"sid": "{secret};"}},
        {"cookies": "{secret}"},
        {"{secret}": 1},
    ],
)
async def test_error_reply_contains_no_secret(
    api: Api, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    planted_secrets = PlantedSecrets("secret")
    body = {"query": "q", **_planted(wrong, planted_secrets.plain("secret"))}
    answer = await api.http.post("/v1/search", json=body)
    assert answer.status_code == 422
    # The name of a field that is not known is told, so that a spelling can be mended.
    outputs = {"log": caplog.text.encode()}
    if "{secret}" not in wrong:
        outputs["answer"] = response_bytes(answer)
    assert planted_secrets.traces(outputs) == []


def _planted(value: Any, secret: str) -> Any:
    if isinstance(value, dict):
        return {_planted(k, secret): _planted(each, secret) for k, each in value.items()}
    if isinstance(value, list):
        return [_planted(each, secret) for each in value]
    return value.replace("{secret}", secret) if isinstance(value, str) else value


def test_a_trace_is_found_in_every_form() -> None:
    """What the search cannot find, it would never report."""
    planted_secrets = PlantedSecrets("it")
    secret = planted_secrets["it"]
    forms = {
        "text": secret,
        "json": json.dumps({"a": secret}),
        "url": quote(secret, safe=""),
        **{
            f"base64 {n}": base64.b64encode(f"{'x' * n}{secret}yy".encode()).decode()
            for n in range(3)
        },
        "urlsafe": base64.urlsafe_b64encode(f"ann:{secret}".encode()).decode(),
        "hex": secret.encode().hex(),
    }
    found = planted_secrets.traces({name: form.encode() for name, form in forms.items()})
    assert {each.partition(":")[0] for each in found} == set(forms)
    assert planted_secrets.traces({"other": b"nothing of it"}) == []
