"""Files in an S3 server of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import object_store
from tests.stores.jobs import accounts
from tests.stores.test_contents import TEXTS, crawl, expected_rows, rows_of
from webdata_nb.service.blobs import open_blob_store
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.segments.mover import UNFINISHED_S, BodyMover, SegmentSweep
from webdata_nb.service.segments.reader import SegmentReader
from webdata_nb.service.store.sqlite.database import SqliteStore

pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[str]:
    with object_store.running(tmp_path / "log") as url:
        yield url


async def test_files_and_stored_pages_in_s3(bucket: str, tmp_path: Path) -> None:
    async with open_blob_store(f"{bucket}/files", tmp_path) as blobs:
        names = {f"some/{n}/{m}" for n in range(3) for m in range(3)}
        for name in [*names, "someone/1"]:
            await blobs.write(name, b"x")
        listed = await blobs.list_folder("some")
        assert {each.name for each in listed} == names
        assert all(abs(each.modified_at - time.time()) < 60 for each in listed)
        await blobs.delete("some/1/1")
        await blobs.delete("some/1/1")
        assert len(await blobs.list_folder("some")) == 8
        assert await blobs.list_folder("nowhere") == []
        assert await blobs.delete_older("some", before=time.time() + 60) == 8

        async with SqliteStore(
            tmp_path / "jobs.sqlite", segments=SegmentReader(blobs, cache_bytes=0)
        ) as store:
            await accounts(store)
            one, two = await crawl(store), await crawl(store, TEXTS[:2])
            await BodyMover(store, blobs, Metrics(), clock=store.now).move()
            [old] = await blobs.list_folder("segments")
            assert await rows_of(store, one) == expected_rows()
            await blobs.write(f"{old.name}0", b"a file without a row")
            await store.retention.mark_expired(one.id, now=store.now())
            await store.retention.delete_rows(one.id, now=store.now())
            sweep = SegmentSweep(
                store, blobs, Metrics(), clock=lambda: store.now() + 2 * UNFINISHED_S
            )
            await sweep.sweep()
            [new] = await blobs.list_folder("segments")
            assert new.name != old.name
            assert await rows_of(store, two) == expected_rows(TEXTS[:2])
