"""The check of each declared Python: its calls on this one, and what it reads and says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import interpreters

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_all_public_functions_are_called_with_nothing_on_standard_error(tmp_path: Path) -> None:
    script = CHECKOUT / "tests" / "interpreter_calls.py"
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", script],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\d\d public names called or returned\n", done.stdout)


def test_a_missing_interpreter_is_said_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shim = tmp_path / "python3.98"
    shim.write_text("#!/bin/sh\nexit 127\n")  # pyenv has one also where the version is not set
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["interpreters", "3.98", "3.99"])
    assert interpreters.main() == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Python {version}: not on this machine, so it is NOT TESTED"
        for version in ("3.98", "3.99")
    ]


def test_the_table_of_the_readme_has_each_declared_version() -> None:
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    rows = dict(re.findall(r"(?m)^\| (3\.\d+) \| (.+) \|$", readme))
    declared = interpreters.declared_versions()
    tested = [version for version, how in rows.items() if how != "not tested, not declared"]
    assert tested == declared
    install, tests = interpreters.readme_tests()
    assert (install, tests) == (["install", "-e", ".[test]"], ["-m", "pytest", "-n", "logical"])
