"""`%load_ext webdata_nb` in a real IPython shell, against a small real service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tests.wire_service import KEY, WireService
from webdata_nb import connect
from webdata_nb.errors import InvalidArgument


@pytest.fixture(scope="module")
def service() -> Iterator[WireService]:
    with WireService() as running:
        yield running


@pytest.fixture
def shell(service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    service.reset()
    connect(base_url=service.url, api_key=KEY)
    new: Any = InteractiveShell
    # Without the history's thread and its database.
    shell = new(config=Config({"HistoryManager": {"enabled": False}}))
    shell.extension_manager.load_extension("webdata_nb")
    yield shell
    shell.extension_manager.unload_extension("webdata_nb")
    shell.history_manager.end_session()


def test_websearch_returns_frame_or_assigns_variable(shell: Any) -> None:
    df = shell.run_line_magic("websearch", "moss garden --num 3 --engine engine_two")
    request = df.attrs["webdata"]["request"]
    assert request["query"] == "moss garden"
    assert (request["num_results"], request["engine"], request["formats"]) == (3, "engine_two", [])
    assert shell.run_line_magic("websearch", "-o found --num 3 'moss  garden'") is None
    assert shell.user_ns["found"].attrs["webdata"]["request"]["query"] == "moss  garden"


def test_webcrawl_takes_one_or_several_urls(shell: Any) -> None:
    df = shell.run_line_magic("webcrawl", "https://a.test/ --max-pages 2 --formats links,headings")
    assert df.attrs["webdata"]["request"]["max_pages"] == 2
    assert {"links", "headings"} <= set(df.columns)
    several = shell.run_line_magic("webcrawl", "https://a.test/ https://b.test/ --max-pages 2")
    assert several["start_url"].unique().tolist() == ["https://a.test/", "https://b.test/"]


@pytest.mark.parametrize(
    ("magic", "line", "message"),
    [
        ("websearch", "", "say what to look for"),
        ("websearch", "moss --engine other", "engine_one"),
        ("websearch", "moss --num many", "--num"),
        ("websearch", "moss --pages 3", "--pages"),
        ("websearch", "moss 'garden", "quotes come in pairs"),
        ("webcrawl", "https://a.test/ -o 1x", "no name for a variable"),
        ("webcrawl", "https://a.test/ -o class", "no name for a variable"),
    ],
)
def test_wrong_usage_is_one_usage_error(shell: Any, magic: str, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        shell.run_line_magic(magic, line)
    assert f"usage: %{magic}" in str(caught.value)


def test_value_outside_contract_raises_invalid_argument(shell: Any) -> None:
    with pytest.raises(InvalidArgument, match="num_results"):
        shell.run_line_magic("websearch", "moss --num 500")


def test_help_option_and_docstring_describe_flags(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_line_magic("websearch", "--help") is None
    assert "results wanted" in capsys.readouterr().out
    assert "--max-pages" in (shell.find_line_magic("webcrawl").__doc__ or "")


def test_extension_reloads_and_unloads(shell: Any) -> None:
    shell.extension_manager.reload_extension("webdata_nb")
    assert shell.find_line_magic("websearch") is not None
    shell.extension_manager.unload_extension("webdata_nb")
    assert shell.find_line_magic("websearch") is None
    assert shell.extension_manager.unload_extension("webdata_nb") == "not loaded"


def test_import_registers_no_magic(tmp_path: Path) -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell()\n"
        "import webdata_nb\nfrom webdata_nb import show\n"
        "assert shell.find_line_magic('websearch') is None\n"
    )
    environment = os.environ | {"IPYTHONDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
