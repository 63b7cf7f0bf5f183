"""Schemathesis against a service that runs: `python -m tests.openapi.fuzzing --examples 500`.

Every operation is called with examples, boundary values, random and wrong requests, and in chains
along the document's links; each answer must be one that the document describes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.openapi.service_process import ServiceProcess, team
from tests.site.document import document
from tests.site.server import Site
from tests.site.web_archive import WebArchiveStub, crawl_capture
from webdata_nb.contract.choices import KEY_SCOPES
from webdata_nb.service.encryption import new_key

_SCENARIOS = re.compile(r"Scenarios:\s+(\d+)")
HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


@contextmanager
def serve_fuzz_target(
    home: Path, *, plan: str = "unlimited", store: str | None = None
) -> Iterator[tuple[ServiceProcess, str]]:
    """Serve a team whose jobs can read one site, and no other; give the site's address.

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
        with team(home, *network, plan=plan, scopes=KEY_SCOPES, **environ) as served:
            yield served, _northern_lights(site)


def _northern_lights(site: Site) -> str:
    """Set the pages of the site that jobs may read, and return its address."""
    links = {"/": ["/docs/", "/gone"], "/docs/": ["/docs/1", "/docs/2"]}
    for path in ("/", "/docs/", "/docs/1", "/docs/2"):
        site.page(path, document(f"Northern lights {path}", links=links.get(path, [])))
    return site.at("/")


def fuzz(
    target: tuple[ServiceProcess, str],
    at: Path,
    *,
    examples: int,
    seed: int | None = None,
    phases: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Schemathesis on a service, in directory `at`; exit code 0 where it found nothing."""
    served, site = target
    environ = {"SCHEMATHESIS_HOOKS": "tests.openapi.hooks", "FUZZED_SITE": site}
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
    parser.add_argument("--examples", type=int, default=500, help="an operation (default 500)")
    parser.add_argument("--seed", type=int, help="of an earlier run")
    parser.add_argument("--phases", help="such as coverage,fuzzing (default: all)")
    parser.add_argument("--store", help="the URL of a PostgreSQL server (default: SQLite)")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        serve_fuzz_target(Path(home), store=args.store) as target,
    ):
        found = fuzz(target, Path(home), examples=args.examples, seed=args.seed, phases=args.phases)
    sys.stdout.write(found.stdout)
    if "stateful" in (args.phases or "stateful") and not chains(found.stdout):
        sys.stdout.write("no operation was called along a link of the document\n")
        return 1
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
