"""Decision 11 lists the declared dependencies and their floors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

CHECKOUT = Path(__file__).resolve().parent.parent
PAGE = (CHECKOUT / "docs/decisions/0011-dependencies.md").read_text("utf-8")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


def declared() -> dict[str, Requirement]:
    """Return the dependencies of all kinds, by name."""
    project: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(line) for group in groups for line in group]
    return {canonicalize_name(each.name): each for each in found if each.name != "webdata_nb"}


def rows(section: str) -> Iterator[list[str]]:
    """Yield the cells of each row below a heading."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def library_names(cell: str) -> list[str]:
    """Return the libraries that a first cell names, without their versions."""
    matches = (NAME.match(part.strip()) for part in cell.split(",") if part.strip() != "pinned")
    return [canonicalize_name(start[0]) for start in matches if start is not None]


def documented() -> list[str]:
    sections = ("Base", "Extras", "Tests")
    return [name for section in sections for row in rows(section) for name in library_names(row[0])]


def test_dependencies_and_rows_match() -> None:
    assert set(declared()) == set(documented())


@pytest.mark.parametrize(("section", "cells"), [("Base", 6), ("Extras", 6), ("Tests", 4)])
def test_rows_are_complete(section: str, cells: int) -> None:
    found = list(rows(section))
    assert len(found) > 5
    assert [row for row in found if len(row) != cells or not all(row)] == []


def test_floors_match_the_page() -> None:
    floors = {canonicalize_name(row[0]): row[1] for row in rows("Known vulnerabilities")}
    assert len(floors) > 8
    for name, floor in floors.items():
        lowest = [each.version for each in declared()[name].specifier if each.operator == ">="]
        assert [Version(each) for each in lowest] == [Version(floor)], name


@pytest.mark.parametrize("name", [name for row in rows("Base") for name in library_names(row[0])])
def test_installed_versions_match_requirements(name: str) -> None:
    requirement = declared()[name]
    assert Version(version(requirement.name)) in requirement.specifier
