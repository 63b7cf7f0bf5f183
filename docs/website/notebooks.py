"""Runs the notebooks and stores their outputs: `python -m docs.website.notebooks [NUMBER ...]`.

The outputs are part of the repository, so that the notebooks can be read without running them.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

CHECKOUT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = CHECKOUT / "notebooks"
# What stands for the home folder of the run in stored outputs.
HOME: Final = "~/webdata"
_PROGRESS: Final = ("✓ ", "✗ ")
_CELL_TIMEOUT_S: Final = 300
_VARIABLE_PARTS: Final = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b(?:key|wdk|acc)_[\w-]+"), "KEY"),
    (re.compile(r"(?<![\w.])[~/][\w./~-]*\.parquet"), "FILE"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:PORT"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+00:00|Z)?)?"), "TIME"),
    (re.compile(r"\d+(?:\.\d+)? (?:ms|s|min|kB|MB)\b(?: \d+ s)?"), "AMOUNT"),
    (re.compile(r"\d+\.\d+"), "NUMBER"),
    (re.compile(r"\s+"), " "),
)


def paths() -> list[Path]:
    """Return the notebooks in the order of their numbers."""
    return sorted(FOLDER.glob("*.ipynb"))


def run(path: Path, home: Path) -> nbformat.NotebookNode:
    """Run a notebook in `home`, and return it with its outputs."""
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    # Notebooks create homes of their own among temporary files.
    places = {"WEBDATA_HOME": str(home), "TMPDIR": str(home)}
    environment = os.environ | places | {"PYTHONPATH": str(CHECKOUT)}
    client = NotebookClient(notebook, timeout=_CELL_TIMEOUT_S, kernel_name="python3")
    client.execute(env=environment, cwd=str(home))
    return notebook


def clean(notebook: nbformat.NotebookNode, home: Path) -> None:
    """Remove what says more about the machine than about the notebook."""
    own_home = re.compile(rf"{re.escape(str(home))}(?:/webdata-notebook-\w+)?")
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            for data in (output, output.get("data", {})):
                for kind, value in data.items():
                    if isinstance(value, str):
                        data[kind] = own_home.sub(HOME, value)


def comparable_outputs(notebook: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the code of each cell, and what it shows without what differs from run to run.

    These are the lines that it prints and the text of its values, sorted, since prints and values
    of parallel calls arrive in any order. Of pictures, only their presence counts. The display of
    progress is left out.
    """
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            outputs = cell["outputs"]
            # A kernel may send one line in two pieces.
            streams = (output for output in outputs if output["output_type"] == "stream")
            printed = "".join("".join(output["text"]) for output in streams)
            others = (output for output in outputs if output["output_type"] != "stream")
            parts = [part for output in others for part in _comparable_parts(output)]
            parts += map(_comparable, printed.splitlines())
            yield "".join(cell["source"]), sorted(parts)


def _comparable_parts(output: Mapping[str, Any]) -> Iterator[str]:
    data = output.get("data", {})
    if "image/png" in data:
        yield "picture"
    elif not (text := _comparable("".join(data.get("text/plain", "")))).startswith(_PROGRESS):
        yield text


def _comparable(text: str) -> str:
    for pattern, replacement in _VARIABLE_PARTS:
        text = pattern.sub(replacement, text)
    return text.strip()


def main() -> None:
    """Run the notebooks that the arguments number, or all, and store their outputs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER")
    numbers = set(parser.parse_args().numbers)
    for path in paths():
        if not numbers or int(path.name[:2]) in numbers:
            with tempfile.TemporaryDirectory() as home:
                notebook = run(path, Path(home))
                clean(notebook, Path(home))
            nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
