"""`webdata watch`: its output, its exit codes, and the lock of overlapping runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
import pandas as pd
import pytest

from tests.shell import Shell
from tests.site.document import document
from tests.test_cli import one_line
from webdata_nb.cli.watch import STILL_RUNNING

if TYPE_CHECKING:
    from tests.site.server import Site


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Return a shell whose local service runs until the end of the module."""
    shell = Shell(tmp_path_factory.mktemp("cli"))
    with shell.serving():
        yield shell


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "changes.csv"), "out must be the path of a .parquet file"),
        (("--columns", "titel"), "did you mean 'title'"),
        (("--columns", ""), "columns must have at least one entry"),
        (("--recheck", "2"), "recheck must be a share"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = Shell(tmp_path).call("watch", "http://a.test/", *words)
    assert result.returncode == 2
    assert message in one_line(result.stderr)
    assert not list(tmp_path.iterdir()), "no service was started"


@pytest.mark.slow
def test_one_line_for_each_change(served: Shell, site: Site, tmp_path: Path) -> None:
    site.page("/two", document("Two", text="It costs 29 EUR. " * 20))
    site.page("/three", document("Three"))
    url, out = site.page("/", document("One", links=["/two", "/three"])), tmp_path / "c.parquet"
    words = ("watch", url, "--out", str(out))
    first = served.call(*words)
    assert (first.returncode, first.stdout) == (0, "")
    assert "first crawl: there is nothing to compare with" in first.stderr
    unchanged = served.call(*words, "--quiet")
    assert (unchanged.returncode, unchanged.stdout, unchanged.stderr) == (0, "", "")

    site.page("/two", document("Two", text="It costs 24 EUR. " * 20))
    site.page("/three", "gone", status=404)
    changed = served.call(*words, "--quiet")
    assert (changed.returncode, changed.stderr) == (0, "")
    head, *lines = [line.split() for line in changed.stdout.splitlines()]
    assert head == ["change", "url", "field", "old", "new"]
    assert [line[:3] for line in lines] == [
        ["changed", site.at("/two"), "markdown"],
        ["removed", site.at("/three"), "title"],
        ["removed", site.at("/three"), "markdown"],
    ]
    assert "29" in changed.stdout
    assert "24" in changed.stdout
    assert max(map(len, changed.stdout.splitlines())) < 200
    assert len(pd.read_parquet(out)) == 3

    site.page("/three", document("Three\x1b[2J"))
    rows = json.loads(served.call(*words, "--quiet", "--format", "json").stdout)
    assert {row["change"] for row in rows} == {"added"}
    assert {"old_at", "new_at", "evidence", "new_hash", "new_job"} <= set(rows[0])


@pytest.mark.slow
def test_overlapping_runs_are_refused(served: Shell, site: Site, tmp_path: Path) -> None:
    url, out = site.page("/", document("One")), tmp_path / "changes.parquet"
    served.call("watch", url, "--out", str(out))
    [lock] = [path for path in tmp_path.rglob("*.lock") if path.name != "append.lock"]
    requests = len(site.requests)
    with filelock.FileLock(lock):
        result = served.call("watch", url, "--out", str(out), "--quiet")
        assert result.returncode == STILL_RUNNING == 3
        assert "is not finished; nothing was sent" in one_line(result.stderr)
    assert len(site.requests) == requests
    other = tmp_path / "mine.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(other)
    refused = served.call("watch", url, "--out", str(other))
    assert refused.returncode == 2
    assert "is something else" in one_line(refused.stderr)
