"""Schemathesis against a service that runs: `python -m tests.openapi.fuzzing --minutes 60`.

Every operation is called with examples, boundary values, random and wrong requests, and in chains
along the document's links; each answer must be one that the document describes. Another account of
the service has jobs too: their ids are asked for, and no answer may show anything of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from tests.openapi.service_process import ENVIRON, ServiceProcess, team
from tests.shell import Shell
from tests.site.document import document
from tests.site.server import Site
from tests.site.web_archive import WebArchiveStub, crawl_capture
from webdata_nb.contract.choices import KEY_SCOPES
from webdata_nb.service.encryption import new_key

_SCENARIOS = re.compile(r"Scenarios:\s+(\d+)")
HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
# In the address and the text of a page that only the other account asks for.
SECRET: Final = "quartz-heron-7391"


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """A service with two accounts: the one that calls it, and one whose jobs it may not see."""

    service: ServiceProcess
    site: str
    others_jobs: Sequence[str]
    secret: str = SECRET


@contextmanager
def serve_fuzz_target(
    home: Path, *, plan: str = "unlimited", store: str | None = None
) -> Iterator[FuzzTarget]:
    """Serve a team whose jobs can read one site, and no other.

    `store` is the URL of a PostgreSQL server; without it the service has a file.
    """
    with Site() as site, Site() as archives:
        archive = WebArchiveStub.on(archives)
        archive.add(site.at("/"), "2024-06-01", document("Northern lights in June"))
        archive.add_crawl(
            "CC-MAIN-2024-22", crawl_capture(site.at("/"), "2024-05-28", document("In May"))
        )
        network = ("--allow-network", "127.0.0.0/8")
        environ = archive.variables
        if store is not None:
            environ = {**environ, "WEBDATA_STORE": store, "WEBDATA_SECRET_KEY": new_key()}
        words = ("keys", "create", "--name", "bob", "--plan", "unlimited")
        others_key = Shell(home).run(*words, **(ENVIRON | environ)).stdout.strip()
        with team(home, *network, plan=plan, scopes=KEY_SCOPES, **environ) as served:
            address = _northern_lights(site)
            yield FuzzTarget(served, address, _start_jobs(served.url, others_key, address))


def _start_jobs(url: str, key: str, site: str) -> list[str]:
    """Run a crawl and a search of the page with the secret; return the ids of the jobs."""
    headers = {"Authorization": f"Bearer {key}"}
    crawl = {"url": f"{site}{SECRET}", "max_pages": 1}
    search = {"query": SECRET, "num_results": 5}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        ids = []
        for path, body in (("/v1/crawl", crawl), ("/v1/search", search)):
            started = client.post(path, json=body)
            assert started.is_success, started.text
            ids.append(started.json()["job_id"])
            status = client.get(f"{path}/{ids[-1]}")
            while status.json()["status"] not in {"completed", "failed"}:
                time.sleep(0.1)
                status = client.get(f"{path}/{ids[-1]}")
            # What must not be seen by others is there to be seen.
            assert SECRET in status.text, status.text
    return ids


def _northern_lights(site: Site) -> str:
    """Set the pages of the site that jobs may read, and return its address."""
    links = {"/": ["/docs/", "/gone"], "/docs/": ["/docs/1", "/docs/2"]}
    for path in ("/", "/docs/", "/docs/1", "/docs/2"):
        site.page(path, document(f"Northern lights {path}", links=links.get(path, [])))
    site.page(f"/{SECRET}", document(f"Private {SECRET}"))
    return site.at("/")


def fuzz(
    target: FuzzTarget,
    at: Path,
    *,
    examples: int,
    seed: int | None = None,
    phases: str | None = None,
    minutes: float | None = None,
    operation: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Schemathesis on a service, in directory `at`; exit code 0 where it found nothing.

    With `minutes`, random calls and chains go on until they are over. With an id as `operation`,
    no other is called.
    """
    served = target.service
    environ = {
        "SCHEMATHESIS_HOOKS": "tests.openapi.hooks",
        "FUZZED_SITE": target.site,
        "FUZZED_SECRET": target.secret,
        "FUZZED_OTHERS_JOBS": json.dumps(target.others_jobs),
    }
    command = [
        *(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(HERE / "schemathesis.toml"),
        ),
        *("run", f"{served.url}/openapi.json", "--url", served.url),
        *("--header", f"Authorization: Bearer {served.key}"),
        *("--max-examples", str(examples), "--continue-on-failure", "--no-color"),
        *("--generation-database", "none", "--workers", "1"),
        *(("--seed", str(seed)) if seed is not None else ()),
        *(("--phases", phases) if phases else ()),
        *(("--include-operation-id", operation) if operation else ()),
        *(("--max-time", str(round(60 * minutes))) if minutes else ()),
    ]
    return subprocess.run(
        command,
        cwd=at,  # it keeps files of its own where it runs
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)} | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def chains(report: str) -> int:
    """Return how many chains of calls along the document's links a report tells of."""
    return sum(int(count) for count in _SCENARIOS.findall(report))


def main() -> int:
    """Run it with the command's options, print the report, return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, help="of random calls and chains, in rounds")
    parser.add_argument("--examples", type=int, help="an operation and round (default 500, or 20)")
    parser.add_argument("--seed", type=int, help="of an earlier run")
    parser.add_argument("--phases", help="such as coverage,fuzzing (default: all)")
    parser.add_argument("--store", help="the URL of a PostgreSQL server (default: SQLite)")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        serve_fuzz_target(Path(home), store=args.store) as target,
    ):
        found = fuzz(
            target,
            Path(home),
            examples=args.examples or (20 if args.minutes else 500),
            seed=args.seed,
            phases=args.phases,
            minutes=args.minutes,
        )
    sys.stdout.write(found.stdout)
    if "stateful" in (args.phases or "stateful") and not chains(found.stdout):
        sys.stdout.write("no operation was called along a link of the document\n")
        return 1
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
