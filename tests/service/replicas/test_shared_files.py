"""Downloaded files of two processes that share a folder, and wrong places for files."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api, open_service
from tests.service.replicas.test_bad_stores import PASSWORD, check_refusal, run
from tests.service.replicas.test_two_replicas import HEADERS, Team, team
from webdata_nb.contract import paths
from webdata_nb.service.blobs import LocalFolder
from webdata_nb.service.creatives.sample import advertiser_ids
from webdata_nb.service.encryption import key_hash
from webdata_nb.service.ledger import Terms

__all__ = ["team"]

pytestmark = pytest.mark.slow

BOB = {"Authorization": "Bearer wdk_bob"}


async def download_creatives(api: Api) -> Any:
    """List creatives of the sample with their files; return the first row."""
    body = {
        "advertiser_id": advertiser_ids()[0],
        "limit": 1,
        "should_download_assets": True,
        "should_download_previews": True,
    }
    return (await api.post(paths.CREATIVES, body))["creatives"][0]


async def test_a_file_is_read_from_the_other_replica(team: Team, tmp_path: Path) -> None:
    async with team.store() as store:
        now = store.now()
        await store.accounts.add("bob", "bob", Terms("team", 1000, 50), now=now)
        await store.accounts.add_key("key_bob", "bob", "pc", key_hash("wdk_bob"), now=now)
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(
                open_service(
                    tmp_path / name,
                    "team",
                    store=team.url,
                    secret_keys=(team.key,),
                    blobs=f"file://{tmp_path}/files",
                )
            )
            for name in ("first", "second")
        ]
        for api in (one, two):
            api.http.headers.update(HEADERS)
        asset = (await download_creatives(one))["assets"][0]
        path = paths.fill(paths.CREATIVES_FILE, sha256=asset["sha256"])
        for api in (one, two):
            reply = await api.http.get(path)
            assert (reply.status_code, len(reply.content)) == (200, asset["bytes"])
            assert (await api.http.get(path, headers=BOB)).status_code == 404
    assert not (tmp_path / "first" / "creatives").exists()


async def test_place_that_fails_is_an_error_of_the_row(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = (await download_creatives(api))["assets"][0]

    def fail(*_: object) -> None:
        raise OSError(5, f"s3://user:{PASSWORD}@host")

    monkeypatch.setattr(LocalFolder, "write", fail)
    monkeypatch.setattr(LocalFolder, "read", fail)
    row = await download_creatives(api)
    assert "cannot be written: Input/output error" in row["error"]
    assert "previews: files at" in row["error"]
    path = paths.fill(paths.CREATIVES_FILE, sha256=asset["sha256"])
    reply = await api.http.get(path)
    assert reply.status_code == 503
    assert reply.headers["retry-after"]
    assert PASSWORD not in row["error"] + reply.text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("files", ("--blobs", "file:///srv/webdata-files")),
        (f"nonsense://user:{PASSWORD}@host/x", ("--blobs", "nonsense://")),
        (f"ftp://user:{PASSWORD}@127.0.0.1:1/x", ("ftp://...", "Connection refused")),
    ],
)
def test_a_wrong_place_ends_the_start(tmp_path: Path, url: str, words: tuple[str, ...]) -> None:
    check_refusal(run(tmp_path, "serve", "--mode", "team", WEBDATA_BLOBS=url), *words)
    check_refusal(run(tmp_path, "serve", "--blobs", url), *words)
