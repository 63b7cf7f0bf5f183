"""The client of the release before `ranked` events reads a search of this service to its end."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.site.document import document
from tests.site.server import Site
from tests.wire.kills import connected
from webdata_nb.settings import Settings

pytestmark = pytest.mark.slow

# The last commit whose streams receipt of the pages of a search when they were ranked.
PREVIOUS = "56925ce"
_CHECKOUT = Path(__file__).resolve().parent.parent.parent
_SEARCH = """
import json
from webdata_nb import crawl_df, search_df, search_job
from webdata_nb.contract import events
assert "RANKED" not in events.StreamEvent.__members__
crawl_df({url!r}, cache=False)
df = search_df("northern lights", cache=False, on_incomplete="raise")
rows = df[["url", "success", "scraped"]].to_dict("records")
receipt = df.attrs["webdata"]
job = search_job("northern lights")
seen = [type(event).__name__ for event in job.events()]
text = df["markdown"].notna().tolist()
print(json.dumps({{"rows": rows, "status": receipt["status"], "text": text, "events": seen}}))
"""


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """Return a folder with the previous package, where the checkout has its history."""
    command = ["git", "-C", str(_CHECKOUT), "archive", PREVIOUS, "webdata_nb"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip("this checkout has no history")
    folder = tmp_path / "previous"
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as package:
        package.extractall(folder, filter="data")
    return folder


async def test_the_previous_client_reads_a_search_to_its_end(
    local_settings: Settings, previous: Path
) -> None:
    with Site(latency=0.2) as site:
        paths = [f"/{n}" for n in range(6)]
        site.page("/", document("Front", links=paths))
        for path in paths:
            site.page(path, document(f"Page {path}", text="Northern lights may be seen tonight."))
        async with connected(local_settings) as (_, service):
            environment = {
                **os.environ,
                "PYTHONPATH": str(previous),
                "WEBDATA_BASE_URL": service.base_url,
                "WEBDATA_API_KEY": service.token,
                "WEBDATA_CACHE_DIR": str(local_settings.cache_dir),
            }
            code = _SEARCH.format(url=site.url)
            done = await asyncio.to_thread(_run, code, previous, environment)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["status"] == "completed"
        assert sorted(row["url"] for row in found["rows"]) == sorted(map(site.at, paths))
        assert all(row["success"] and row["scraped"] for row in found["rows"])
        assert all(found["text"])
        # It gives what it knows of the stream, and each row once.
        assert set(found["events"]) == {"Progress", "PageDone", "Done"}
        assert found["events"].count("PageDone") == len(paths)
        assert found["events"][-1] == "Done"


def _run(code: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
