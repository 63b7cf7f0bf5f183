"""Secrets at rest: sealed, opened by the right keys alone, rotated, and found nowhere."""

from __future__ import annotations

import asyncio
import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service.conftest import open_service
from tests.service.job_stores import store_of
from tests.site.server import Site
from tests.stores.jobs import ALICE, NOW, accounts, new_job
from webdata_nb.contract.local import Access, ModelAccess, SessionSettings
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.service.encryption import FixedKeys, KeyFile, SecretCipher, check_keys, new_key
from webdata_nb.service.errors import UnreadableSecrets
from webdata_nb.service.settings import InvalidSetting, secret_keys
from webdata_nb.service.store.sql.job_rows import merge_secrets, split_secrets
from webdata_nb.service.store.sqlite.database import SqliteStore

CANARIES = ("canary-header", "canary-cookie", "canary-webhook", "canary-key", "canary-proxy")
HEADERS, COOKIES = {"X-Token": CANARIES[0]}, {"session": CANARIES[1]}
CONTEXT = {"llm": {"x": {"key": CANARIES[3]}}, "proxy": f"http://u:{CANARIES[4]}@127.0.0.1:9"}

texts = st.text(max_size=5)
pairs = st.dictionaries(texts, texts, max_size=2)
requests = st.fixed_dictionaries(
    {"url": texts},
    optional={
        "headers": pairs,
        "cookies": st.none() | pairs,
        "webhook_secret": texts,
        "scrape_options": st.fixed_dictionaries(
            {}, optional={"headers": pairs, "cookies": pairs, "formats": st.lists(texts)}
        ),
    },
)


def files_with(directory: Path, *planted_secrets: str) -> list[tuple[str, str]]:
    """Return which planted_secrets are in which files of a directory."""
    found = []
    for path in directory.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        found += [(canary, path.name) for canary in planted_secrets if canary.encode() in content]
    return found


@given(requests, pairs)
def test_split_and_merged_secrets_round_trip(
    request: dict[str, Any], context: dict[str, Any]
) -> None:
    public, secrets = split_secrets(request, context)
    assert merge_secrets(public, secrets) == (request, context)
    assert not {"headers", "cookies", "webhook_secret"} & (
        public.keys() | public.get("scrape_options", {}).keys()
    )


@given(st.dictionaries(texts, texts))
def test_only_its_key_decrypts_a_token(secrets: dict[str, str]) -> None:
    first, second = new_key(), new_key()
    old, new = SecretCipher(FixedKeys((first,))), SecretCipher(FixedKeys((second, first)))
    sealed = old.encrypt(secrets)
    assert new.decrypt(sealed) == old.decrypt(sealed) == secrets
    if secrets:
        again = new.reencrypt(sealed)
        for cipher, text in (
            (old, again),
            (SecretCipher(FixedKeys(())), sealed),
            (old, sealed[:-9]),
        ):
            with pytest.raises(UnreadableSecrets):
                cipher.decrypt(text)


def test_key_file_is_created_once_with_owner_permissions(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: KeyFile(path).read_or_create(), range(40)))
    assert len(set(keys)) == 1
    assert len(keys[0]) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    KeyFile(path).rotate()
    assert KeyFile(path).read()[1:] == keys[0]
    KeyFile(path).rotate()
    assert keys[0][0] not in KeyFile(path).read()
    assert [each.name for each in tmp_path.iterdir()] == ["secret.key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_invalid_key_setting_is_reported_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    good = new_key()
    assert check_keys(f" {good} , ") == (good,)
    monkeypatch.setenv("WEBDATA_SECRET_KEY", f"{good},swordfish")
    with pytest.raises(InvalidSetting, match="webdata secrets new-key") as raised:
        secret_keys()
    assert "swordfish" not in str(raised.value)


async def test_no_secret_is_in_any_file_reply_log_or_repr(
    tmp_path: Path, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    site.page("/", "text")
    replies: list[Any] = []
    async with open_service(tmp_path) as api:
        api.lifetime.renew("lease")
        access = {"x": Access(key=CANARIES[3])}
        models = {"x": ModelAccess(key=CANARIES[3])}
        settings = SessionSettings(llm=models, providers=access, proxy=str(CONTEXT["proxy"]))
        api.lifetime.bind_settings("lease", settings)
        secret = {"headers": HEADERS, "cookies": COOKIES}
        crawl = await api.start_job("crawl", {"url": site.url, "scrape_options": secret})
        held = {LEASE_HEADER: "lease"}
        search = await api.start_job("search", {"query": "text", **secret}, headers=held)
        for kind, job_id in (("crawl", crawl), ("search", search)):
            replies += [await api.wait_for_end(kind, job_id), await api.get("/v1/jobs")]
            events = await api.http.get(f"/v1/{kind}/{job_id}/events")
            replies.append(events.text)
        async with store_of(tmp_path) as store:
            stored = [await store.job("local", job_id) for job_id in (crawl, search)]
            assert stored[0].request["scrape_options"] == secret
            assert stored[1].context["proxy"] == CONTEXT["proxy"]
            assert files_with(tmp_path, *CANARIES) == []
            replies += [repr(stored), repr(new_job(request=secret, context=CONTEXT))]
    assert files_with(tmp_path, *CANARIES) == []
    output = f"{replies} {caplog.text}"
    assert [canary for canary in CANARIES if canary in output] == []
    # The site received the decrypted headers.
    assert any(CANARIES[0] in str(hit.headers) for hit in site.requests)


async def test_retry_keeps_the_secrets_of_the_first_start(tmp_path: Path, site: Site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /")
    async with open_service(tmp_path) as api:
        body = {"url": site.url, "scrape_options": {"headers": HEADERS}}
        first = await api.start_job("crawl", body)
        assert (await api.wait_for_end("crawl", first))["status"] == "failed"
        again = (await api.post(f"/v1/jobs/{first}/retry"))["job_id"]
        await api.wait_for_end("crawl", again)
        async with store_of(tmp_path) as store:
            jobs = [await store.job("local", job_id) for job_id in (first, again)]
        assert jobs[0].request == jobs[1].request == body


@pytest.mark.sqlite("uses the key file of the data directory")
async def test_rotation_reencrypts_all_jobs_while_the_service_runs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    secret = {"url": "http://x/", "webhook_secret": CANARIES[2]}
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        await accounts(store)
        for _ in range(3):
            await store.accept(new_job(request=secret, context=CONTEXT), now=NOW)
        await store.accept(new_job(), now=NOW)
        old = KeyFile(tmp_path / "secret.key").read()
        await asyncio.to_thread(KeyFile(tmp_path / "secret.key").rotate)
        assert await other.secrets.reencrypt() == (3, 0)
        late, _ = await store.accept(new_job(request=secret), now=NOW)
        jobs = await store.jobs(ALICE, limit=9)
    assert sum(job.request == secret for job in jobs) == 4
    # The old key opens nothing any more.
    async with SqliteStore(path, SecretCipher(FixedKeys(old))) as store:
        assert sum(job.locked for job in await store.jobs(ALICE, limit=9)) == 4
        assert await store.secrets.reencrypt() == (0, 4)
        assert (await store.job(ALICE, late.id)).request == {"url": "http://x/"}


@pytest.mark.sqlite("deletes the key file of the data directory")
async def test_job_with_a_lost_key_fails_with_a_clear_error(tmp_path: Path, site: Site) -> None:
    site.page("/", "text")
    async with store_of(tmp_path) as store:
        await store.accounts.ensure("local", "me", now=NOW)
        request = {"url": site.url, "scrape_options": {"headers": HEADERS}}
        job, _ = await store.accept(new_job("local", request=request), now=NOW)
    (tmp_path / "secret.key").unlink()
    async with open_service(tmp_path) as api:
        reply = await api.wait_for_end("crawl", job.id)
        assert reply["status"] == "failed"
        assert "no key of this service" in reply["error"]
        assert "no key" in (await api.post(f"/v1/jobs/{job.id}/retry", {}, 409))["detail"]
    assert site.paths == ()
