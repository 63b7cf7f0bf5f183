"""The same calls in every host of Python code return the same frames, whoever runs the loop."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.notebooks import reference_calls
from tests.preloaded import PACKAGE, run_notebook
from tests.requirements import require_module
from tests.wire_service import WireService

if TYPE_CHECKING:
    import pandas as pd

pytestmark = pytest.mark.slow

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_TIMEOUT_S: Final = 180
# What tells one run from the next; all else must be the same.
_OF_THE_RUN: Final = frozenset({"job_id", "line", "timings"})  # the line tells the time it took

CALLS: Final = """
import os
from tests.notebooks import reference_calls
reference_calls.keep(os.environ["SERVICE_URL"], os.environ["FRAMES_FILE"])
"""
CALLS_IN_FUNCTION: Final = """
import os
from tests.notebooks import reference_calls
def make_calls():
    reference_calls.keep(os.environ["SERVICE_URL"], os.environ["FRAMES_FILE"])
async def main():
    make_calls()
"""
SCRIPTS: Final = {
    "script": CALLS,
    "asyncio": f"{CALLS_IN_FUNCTION}\nimport asyncio\nasyncio.run(main())",
    "busy loop": CALLS_IN_FUNCTION
    + """
import asyncio
async def busy():
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        waiting = group.create_task(asyncio.sleep(0.5))
        await asyncio.sleep(0)
        make_calls()
        await waiting
asyncio.run(busy())
""",
    "uvloop": f"{CALLS_IN_FUNCTION}\nimport uvloop\nuvloop.run(main())",
    "trio": f"{CALLS_IN_FUNCTION}\nimport trio\ntrio.run(main)",
    "thread": f"""{CALLS_IN_FUNCTION}
import threading
thread = threading.Thread(target=make_calls)
thread.start()
thread.join()
""",
    "fork": f"""{CALLS_IN_FUNCTION}
import sys
reference_calls.frames(os.environ["SERVICE_URL"])  # so that the portal runs already
child = os.fork()
if child == 0:
    make_calls()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
}
APP: Final = f"""
import marimo
app = marimo.App()

@app.cell
def _():
{textwrap.indent(CALLS, "    ")}
    return

if __name__ == "__main__":
    app.run()
"""


@pytest.fixture(scope="module")
def service() -> Iterator[WireService]:
    with WireService() as running:
        yield running


@pytest.fixture(scope="module")
def expected_frames(service: WireService) -> list[pd.DataFrame]:
    """Give the frames of this process."""
    return reference_calls.frames(service.url)


class HostFolder:
    """Where a host runs, and what it leaves behind."""

    def __init__(self, folder: Path, service: WireService) -> None:
        self.folder, self.file = folder, folder / "frames.pickle"
        self.env = os.environ | {
            "SERVICE_URL": service.url,
            "FRAMES_FILE": str(self.file),
            "HOME": str(folder),
            "IPYTHONDIR": str(folder / "ipython"),
            "PYTHONPATH": str(CHECKOUT),
            "WEBDATA_HOME": str(folder / "webdata"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }

    def run(self, *arguments: str | Path) -> None:
        """Run Python to its end, which must be a good one."""
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def run_code(self, code: str) -> None:
        """Run a program to its end, which must be a good one, without a start of Python."""
        done = PACKAGE.run(code, cwd=self.folder, env=self.env, timeout=_TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    @property
    def frames(self) -> list[pd.DataFrame]:
        found: list[pd.DataFrame] = pickle.loads(self.file.read_bytes())
        return found


@pytest.fixture
def host_folder(tmp_path: Path, service: WireService) -> HostFolder:
    return HostFolder(tmp_path, service)


def comparable_receipt(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be the same in every run; the receipts of several inputs one by one."""
    values = {name: value for name, value in receipt.items() if name not in _OF_THE_RUN}
    return values | {"runs": [comparable_receipt(run) for run in values.get("runs", [])]}


def assert_equal(frames: list[pd.DataFrame], expected: list[pd.DataFrame]) -> None:
    """Compare frames with their dtypes and receipts; only the moment of a row is its own."""
    assert len(frames) == len(expected) == 4
    for one, other in zip(frames, expected, strict=True):
        assert one.dtypes.to_dict() == other.dtypes.to_dict()
        timeless = [
            frame.drop(columns=[name for name in ("fetched_at",) if "query" in frame])
            for frame in (one, other)
        ]
        assert timeless[0].equals(timeless[1])
        assert len(one)
        assert comparable_receipt(one.attrs["webdata"]) == comparable_receipt(
            other.attrs["webdata"]
        )


@pytest.mark.parametrize("host", SCRIPTS)
def test_the_same_frames_from_a_program(
    host: str, host_folder: HostFolder, expected_frames: list[pd.DataFrame]
) -> None:
    if host in {"uvloop", "trio"}:
        require_module(host)
    if host == "fork" and not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    if host == "script":
        host_folder.run(host_folder.write("program.py", SCRIPTS[host]))
    else:
        host_folder.run_code(SCRIPTS[host])
    assert_equal(host_folder.frames, expected_frames)


def test_the_same_frames_from_papermill_with_static_bars(
    host_folder: HostFolder, expected_frames: list[pd.DataFrame]
) -> None:
    require_module("papermill")
    nbformat = require_module("nbformat")
    new = nbformat.v4
    parameter = new.new_code_cell("name = 'gulls'", metadata={"tags": ["parameters"]})
    notebook = new.new_notebook(cells=[parameter, new.new_code_cell(CALLS)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    notebook.metadata["language_info"] = {"name": "python"}
    source = host_folder.write("in.ipynb", nbformat.writes(notebook))
    made = host_folder.folder / "out.ipynb"
    words = ("papermill", "--no-progress-bar", "-p", "name", "terns", str(source), str(made))
    done = run_notebook(*words, cwd=host_folder.folder, env=host_folder.env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_equal(host_folder.frames, expected_frames)
    saved = json.loads(made.read_text("utf-8"))
    assert "widgets" not in saved["metadata"]
    outputs = [each["data"] for cell in saved["cells"] for each in cell["outputs"]]
    assert [sorted(data) for data in outputs] == [["text/html", "text/plain"]] * 4
    texts = ["".join(data["text/plain"]) for data in outputs]
    assert all(each.startswith("✓ ") for each in texts), texts


def test_the_same_frames_from_a_marimo_notebook_run_as_a_program(
    host_folder: HostFolder, expected_frames: list[pd.DataFrame]
) -> None:
    require_module("marimo")
    host_folder.run(host_folder.write("app.py", APP))
    assert_equal(host_folder.frames, expected_frames)


def test_the_same_frames_from_a_marimo_export_with_its_own_bars(
    host_folder: HostFolder, expected_frames: list[pd.DataFrame]
) -> None:
    require_module("marimo")
    made = host_folder.folder / "app.html"
    app = host_folder.write("app.py", APP)
    host_folder.run("-m", "marimo", "--yes", "export", "html", app, "-o", made)
    assert_equal(host_folder.frames, expected_frames)
    text = made.read_text("utf-8")
    assert text.count("marimo-progress data-") + text.count("marimo-progress ") >= 4
    assert "3 rows; " in text
