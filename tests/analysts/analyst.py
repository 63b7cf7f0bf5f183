"""A person with a folder who runs notebooks, and the files that the notebooks leave."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import openpyxl
import pyarrow.parquet as pq

from tests.preloaded import run_notebook
from tests.site.plain_audit import PlainSite

CHECKOUT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(__file__).parent / "notebooks"
TIMEOUT_S: Final = 300


def cells(notebook: Path) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads(notebook.read_text("utf-8"))["cells"]
    return [cell for cell in read if cell["cell_type"] == "code"]


@dataclass(frozen=True, slots=True)
class Analyst:
    """A person with a folder, who runs notebooks."""

    folder: Path
    home: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(self, name: str, **parameters: str) -> list[dict[str, Any]]:
        """Run a notebook with papermill; return the cells that it ran."""
        made = self.folder / f"{name}.ran.ipynb"
        given = [text for item in parameters.items() for text in ("-p", *item)]
        done = run_notebook(
            *("papermill", "--no-progress-bar", *given, str(FOLDER / f"{name}.ipynb"), str(made)),
            cwd=self.folder,
            env=self.environment,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        ran = cells(made)
        outputs = [output for cell in ran for output in cell["outputs"]]
        said = [each["text"] for each in outputs if each.get("name") == "stderr"]
        assert said == [], said
        return ran

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the processes."""
        own = {"PYTHONPATH": str(CHECKOUT), "WEBDATA_HOME": str(self.home)}
        own["WEBDATA_CACHE"] = str(self.folder / "cache")
        return {**os.environ, **own, **self.settings}

    def sheet(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of an Excel file, which opens without the package."""
        header, *rows = openpyxl.load_workbook(self.folder / name).active.values
        return [dict(zip(header, row, strict=True)) for row in rows]

    def parquet(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a Parquet file, read by pyarrow alone."""
        rows: list[dict[str, Any]] = pq.read_table(self.folder / name).to_pylist()
        return rows

    def csv(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a CSV file."""
        with (self.folder / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def read(start: str) -> PlainSite:
    """Read a site with an independent program."""
    site = PlainSite(start, max_pages=10_000)
    site.read()
    return site
