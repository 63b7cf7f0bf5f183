from __future__ import annotations

from pathlib import Path

import pytest

from tests import requirements
from tests.requirements import find, missing, require, require_module


def test_what_is_missing_skips_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="the moon is not installed"):
        missing("the moon")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="the moon is not installed"):
        missing("the moon")


def test_corpora_are_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_CORPORA", str(tmp_path))
    assert require("corpora") == tmp_path
    monkeypatch.setenv("WEBDATA_CORPORA", str(tmp_path / "gone"))
    assert find("corpora") is None


def test_a_program_is_found_where_path_does_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nginx"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(requirements, "_SYSTEM_PATHS", (str(tmp_path),))
    assert find("nginx") == program


def test_modules_are_imported_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert require_module("json").loads("1") == 1
    with pytest.raises(pytest.skip.Exception, match="module no_such_module"):
        require_module("no_such_module")
