"""Version, changelog, fragments and tag tell of the same release."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

import pytest

import webdata_nb

CHECKOUT: Final = Path(__file__).resolve().parent.parent
HEADING: Final = re.compile(r"(?m)^## (?P<version>\S+) \((?P<date>\d{4}-\d\d-\d\d)\)$")
FRAGMENT: Final = re.compile(r"\d+(-[a-z0-9-]+)?\.(added|changed|fixed|removed|security)\.md")


def newest_heading(changelog: str) -> str:
    """Return the version of the first page of a changelog, which has a version and a date."""
    first = re.search(r"(?m)^## .*$", changelog)
    heading = first and HEADING.fullmatch(first[0])
    assert heading, f"the first page is not headed by a version and a date: {first and first[0]}"
    return heading["version"]


def fragments() -> list[str]:
    names = {path.name for path in (CHECKOUT / "changelog.d").glob("*")}
    return sorted(names - {"README.md"})


def tags_of_head(checkout: Path) -> list[str]:
    """Return the versions that are tagged at HEAD; none where there is no repository."""
    command = ["git", "tag", "--points-at", "HEAD", "--list", "v[0-9]*"]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git
        return []
    return done.stdout.split()


def test_newest_page_of_the_changelog_is_that_of_the_version() -> None:
    changelog = (CHECKOUT / "CHANGELOG.md").read_text("utf-8")
    assert newest_heading(changelog) == webdata_nb.__version__


@pytest.mark.parametrize("heading", ["## Unreleased", "## 0.2.0", "## 0.2.0 (soon)"])
def test_a_page_without_version_and_date_is_found(heading: str) -> None:
    with pytest.raises(AssertionError, match="version and a date"):
        newest_heading(f"# Changelog\n\n{heading}\n\n## 0.1.0 (2026-11-29)\n")


def test_the_package_has_the_version_of_its_module() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "webdata_nb/__init__.py"}


def test_a_tag_of_this_commit_is_that_of_the_version() -> None:
    tags = tags_of_head(CHECKOUT)
    assert set(tags) <= {f"v{webdata_nb.__version__}"}
    assert not tags or fragments() == [], "their sentences are in the changelog"


def test_tags_are_those_of_head_alone(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    assert tags_of_head(tmp_path) == []
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    git("tag", "--annotate", "--message", "0.1.0", "v0.1.0")
    assert tags_of_head(tmp_path) == ["v0.1.0"]
    git("commit", "--quiet", "--allow-empty", "--message", "second")
    assert tags_of_head(tmp_path) == []


def test_fragments_are_named_by_issue_and_kind() -> None:
    assert [name for name in fragments() if not FRAGMENT.fullmatch(name)] == []


class Figure(NamedTuple):
    """A line of the table "Figures": a measured figure, where it stands, and what prints it."""

    page: Path
    text: str
    command: str


def figures() -> list[Figure]:
    page = CHECKOUT / "docs" / "contributing.md"
    table = page.read_text("utf-8").partition("\n### Figures\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| \[[^\]]+\]\(([^)]+)\) \| (.+) \| `([^`]+)` \|$", table)
    assert len(rows) == len(re.findall(r"(?m)^\| \[", table))
    return [
        Figure((page.parent / path).resolve(), text.replace("\\|", "|"), command)
        for path, text, command in rows
    ]


def programs(text: str) -> set[str]:
    """Return the benchmarks and test files that a text names as commands."""
    return set(re.findall(r"python -m\s(?:tests|benchmarks)(?:\.\w+)+|tests/quality/\w+\.py", text))


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.text)
def test_a_figure_stands_on_its_page_beside_its_command(figure: Figure) -> None:
    text = " ".join(figure.page.read_text("utf-8").split())
    assert figure.text in text
    named = programs(figure.command)
    assert len(named) == 1
    assert named <= programs(text)
    name = named.pop().removeprefix("python -m ")
    path = CHECKOUT / (name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
    assert path.is_file() or (path.with_suffix("") / "__main__.py").is_file()


def test_every_measured_page_is_on_the_list_of_figures() -> None:
    docs = CHECKOUT / "docs"
    pages = [
        CHECKOUT / "README.md",
        docs / "comparison.md",
        docs / "tutorial.md",
        *docs.glob("guide/*.md"),
        *docs.glob("recipes/*.md"),
    ]
    named = {
        (page, name)
        for page in pages
        for name in programs(" ".join(page.read_text("utf-8").split()))
    }
    listed = {(figure.page, *programs(figure.command)) for figure in figures()}
    assert named == listed
