"""A kill while a crawl writes a WARC file: what is there can be read, and the call repeated."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]
from warcio.exceptions import ArchiveLoadFailed  # type: ignore[import-untyped]

from tests.api.test_archives import comparable
from tests.local_service import stop
from tests.site.document import document
from tests.site.server import Site
from webdata_nb import settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.api import connect, crawl_df
from webdata_nb.toolkit.bridge import synced

if TYPE_CHECKING:
    import pandas as pd

PAGES = 15
CALL = """\
import sys
from webdata_nb import crawl_df
crawl_df(sys.argv[1], out=sys.argv[2], max_pages=50, progress=False)
"""
find = synced(local.find)


@pytest.fixture(scope="module")
def slow_site() -> Iterator[Site]:
    with Site(latency=0.03) as site:
        links = [f"/p{number}" for number in range(1, PAGES)]
        site.page("/", document("Front", links=links))
        for link in links:
            # Bodies larger than a write, so that a kill may come between two of one record.
            noise = random.Random(link).randbytes(40_000).hex()
            text = document(f"Page {link}", links=[f"{link}/moved"], head=f"<!-- {noise} -->")
            site.page(link, text)
            site.redirect(f"{link}/moved", "/")
        yield site


@pytest.fixture(scope="module")
def undisturbed(
    slow_site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pd.DataFrame]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEBDATA_HOME", str(tmp_path_factory.mktemp("home")))
        with connect():
            yield crawl_df(slow_site.url, max_pages=50, cache=False)
        stop(settings.current())


def killed_call(site: Site, path: Path, seed: int) -> int:
    """Run the call in a process of its own, and kill it and its service at a random moment.

    Return the number of requests until then.
    """
    chance = random.Random(seed)
    site.forget()
    call = subprocess.Popen([sys.executable, "-c", CALL, site.url, path])
    requests = chance.randint(3, 28)
    while len(site.requests) < requests and call.poll() is None:
        time.sleep(0.005)
    time.sleep(chance.random() * 0.03)
    service = find(settings.current())
    assert service is not None
    call.kill()
    os.kill(service.hello.pid, signal.SIGKILL)
    call.wait()
    return len(site.requests)


def complete_responses(path: Path) -> list[str]:
    """Return the URLs of the complete responses, as another program reads them."""
    urls = list[str]()
    with path.open("rb") as file, suppress(ArchiveLoadFailed, EOFError):
        for record in ArchiveIterator(file):
            body = record.content_stream().read()
            if record.rec_type == "response":
                length = record.http_headers.get_header("Content-Length")
                if length is None or len(body) == int(length):
                    urls.append(record.rec_headers.get_header("WARC-Target-URI"))
    return urls


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2])
def test_a_killed_crawl_leaves_a_readable_file_and_can_be_repeated(
    slow_site: Site, undisturbed: pd.DataFrame, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "site.warc.gz"
    sent = killed_call(slow_site, path, seed)
    for name in sorted(tmp_path.glob("*.warc.gz")):
        # A service that starts again continues the file.
        left = Path(shutil.copy(name, tmp_path / "left.warc.gz"))
        stored = complete_responses(left)
        rows = crawl_df(left, max_pages=50, cache=False)
        # All but the pages under way are there, and what is there is whole.
        assert len(stored) >= sent - 12
        assert set(rows["url"]) <= set(undisturbed["url"])
        assert rows["success"].all()
        assert set(rows["url"]) == set(stored) & set(undisturbed["url"])
    again = crawl_df(slow_site.url, out=path, max_pages=50)
    assert comparable(again).equals(comparable(undisturbed))
    # The service that started again ends the crawl that was killed as well.
    while list(tmp_path.glob("*.partial-*")):
        time.sleep(0.05)
    subprocess.run([sys.executable, "-m", "warcio.cli", "check", path], check=True)
    read = crawl_df(path, max_pages=50)
    assert comparable(read).equals(comparable(undisturbed))
