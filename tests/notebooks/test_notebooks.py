"""The notebooks run offline from top to bottom, and show what they show in the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from docs.website.notebooks import comparable_outputs
from tests.local_service import stop
from tests.preloaded import run_notebook
from webdata_nb import settings
from webdata_nb.settings import Options

CHECKOUT: Final = Path(__file__).resolve().parents[2]
NOTEBOOKS: Final = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
# What a cell shows that compares a frame with one that was kept: where it came from, and whether
# both are equal.
PROMISED: Final = {"01_quickstart": ["hit"], "05_batch_research": ["hit", "replay"]}


def cells(path: Path) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return read


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the home of a reader who runs all notebooks."""
    return tmp_path_factory.mktemp("reader")


def stop_services(folder: Path) -> None:
    """Stop the services that a notebook has left behind in homes of its own."""
    for own_home in folder.glob("webdata-notebook-*"):
        stop(settings.current(Options(home=own_home)))


def in_reverse(paths: list[Path]) -> list[Any]:
    """Return paths as parameters from the last to the first, all but the first of them slow."""
    first, *others = paths
    slow = [pytest.param(path, id=path.stem, marks=pytest.mark.slow) for path in reversed(others)]
    return [*slow, pytest.param(first, id=first.stem)]


def plots(path: Path) -> list[dict[str, Any]]:
    """Return the cells whose value is a figure."""
    return [cell for cell in cells(path) if "".join(cell["source"]).startswith("plot_")]


def test_a_line_sent_in_two_pieces_is_compared_as_one() -> None:
    def notebook(*texts: str) -> dict[str, Any]:
        outputs = [{"output_type": "stream", "name": "stdout", "text": text} for text in texts]
        return {"cells": [{"cell_type": "code", "source": "x", "outputs": outputs}]}

    whole, pieces = notebook("one two\n"), notebook("one", " two\n")
    assert [*comparable_outputs(whole)] == [*comparable_outputs(pieces)] == [("x", ["one two"])]


def test_there_are_notebooks() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05", "06", "07"]


# From the last to the first: none may need what one before it has left.
@pytest.mark.parametrize("path", in_reverse(NOTEBOOKS))
def test_it_runs_and_shows_what_it_promises(path: Path, home: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    done = run_notebook(
        *("pytest", "-p", "nbmake.pytest_plugin", "--nbmake", "--overwrite"),
        *("--nbmake-timeout=300", "-q", "-p", "no:cacheprovider"),
        *("--rootdir", str(tmp_path), str(copy)),
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(CHECKOUT), "WEBDATA_HOME": str(home), "TMPDIR": str(tmp_path)}
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    stop_services(tmp_path)
    assert done.returncode == 0, done.stdout
    outputs = [output for cell in cells(copy) for output in cell.get("outputs", [])]
    complaints = [output for output in outputs if output.get("name") == "stderr"]
    assert complaints == []
    pages = ["".join(output.get("data", {}).get("text/html", [])) for output in outputs]
    assert any("✓ " in page for page in pages)
    assert not any("<script" in page for page in pages)
    # What the text says of the cache, of recordings and of comparisons is so.
    values = ["".join(output.get("data", {}).get("text/plain", [])) for output in outputs]
    assert [value for value in values if re.match(r"\('\w+', (True|False)\)$", value)] == [
        f"('{state}', True)" for state in PROMISED.get(path.stem, [])
    ]
    # The stored outputs are those of this version.
    read = json.loads(path.read_text("utf-8")), json.loads(copy.read_text("utf-8"))
    assert [*comparable_outputs(read[1])] == [*comparable_outputs(read[0])]
    # Pictures are part of the notebook, never an address.
    assert all(page.count("<img") == page.count('src="data:image/png;base64,') for page in pages)
    drawn = sum("image/png" in output.get("data", {}) for output in outputs)
    assert drawn == sum("plot_" in "".join(cell["source"]) for cell in plots(copy))
    assert list(home.iterdir()) == [], "the notebook wrote into the home of its reader"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_can_be_read_without_a_run(path: Path) -> None:
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert sum(bool(cell["outputs"]) for cell in code) >= len(code) / 2
    outputs = json.dumps([cell["outputs"] for cell in code])
    assert re.findall(r"/(?:tmp|root|home|Users|work)/", outputs) == []
    assert "application/vnd.jupyter.widget" not in outputs


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_ends_with_next_steps(path: Path) -> None:
    first, last = cells(path)[0], cells(path)[-1]
    assert first["cell_type"] == "markdown"
    text = "".join(last["source"])
    assert text.startswith("## Next steps\n")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) >= 2
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_comparison_ignores_durations_and_finds_changes() -> None:
    def outputs(text: str) -> list[tuple[str, list[str]]]:
        output = {"output_type": "stream", "name": "stdout", "text": text}
        cell = {"cell_type": "code", "source": "x", "outputs": [output]}
        return list(comparable_outputs({"cells": [cell]}))

    first = outputs("crawl http://127.0.0.1:4000/: 31 rows; 2.5 s, 2026-11-23 00:10:02+00:00")
    assert (
        outputs("crawl http://127.0.0.1:81/: 31 rows; 120 ms, 2026-11-24 00:10:02+00:00") == first
    )
    assert (
        outputs("crawl http://127.0.0.1:81/: 30 rows; 120 ms, 2026-11-24 00:10:02+00:00") != first
    )
