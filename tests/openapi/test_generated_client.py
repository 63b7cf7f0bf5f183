"""A client generated from the document of a service that runs can use that service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.openapi.fuzzing import CHECKOUT, serve_fuzz_target

pytestmark = pytest.mark.slow

# The generator knows no pattern of media types; the file's own is told by the answer.
CONFIG = {
    "content_type_overrides": {"*/*": "application/octet-stream"},
    "package_name_override": "generated_client",
    "post_hooks": [],
}


def run(*words: str, at: Path, path: Path | None = None) -> str:
    """Run a program of this interpreter's; return what it printed."""
    found = os.pathsep.join(str(each) for each in (path, CHECKOUT) if each)
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=at,
        env=os.environ | {"PYTHONPATH": found},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("plan", ["unlimited", "team"])
def test_a_generated_client_searches_crawls_and_exports(tmp_path: Path, plan: str) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    out = tmp_path / "generated"
    with serve_fuzz_target(tmp_path / "home", plan=plan) as target:
        served = target.service
        run(
            *("openapi_python_client", "generate", "--url", f"{served.url}/openapi.json"),
            *("--output-path", str(out), "--config", str(config), "--fail-on-warning"),
            at=tmp_path,
        )
        words = (
            "tests.openapi.generated_client_program",
            "generated_client",
            served.url,
            served.key,
            target.site,
        )
        printed = json.loads(run(*words, at=tmp_path, path=out))
    assert len(printed["crawl"]) == 2
    assert printed["crawl"] == printed["exported"]
    assert printed["markdown"] == [True] * 2
    assert printed["receipt"]["fetched"] == 2
    assert printed["held"] == ([None, True] if plan == "unlimited" else [2, False])
    assert all(printed["cost"])
    assert printed["search"] == list(range(1, len(printed["results"]) + 1)) != []
    assert printed["plan"] == plan
