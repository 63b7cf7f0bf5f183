"""Findings of the command `webdata doctor`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from tests.local_service import stop
from tests.wire_service import KEY, WireService
from webdata_nb import settings
from webdata_nb.__main__ import main
from webdata_nb.contract import paths
from webdata_nb.toolkit import session

CANARY = "canary-key-5a0d"


@pytest.fixture(scope="module")
def running_service() -> Iterator[WireService]:
    with WireService() as service:
        yield service


@pytest.fixture
def service(running_service: WireService, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireService]:
    running_service.reset()
    monkeypatch.setenv("WEBDATA_BASE_URL", running_service.url)
    monkeypatch.setenv("WEBDATA_API_KEY", KEY)
    yield running_service
    session.default_connection().close()


def findings(capsys: pytest.CaptureFixture[str], exit_code: int) -> dict[str, tuple[str, str]]:
    """Run the command and return its findings by name."""
    assert main(["doctor", "--json"]) == exit_code
    out = capsys.readouterr().out
    assert CANARY not in out
    report: dict[str, Any] = json.loads(out)
    return {each["name"].strip(): (each["state"], each["text"]) for each in report["findings"]}


@pytest.mark.usefixtures("service")
def test_remote_service_lists_its_engines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_BRAVE_KEY", CANARY)
    result = findings(capsys, 0)
    assert result["service"][0] == "ok"
    assert result["engine_one"] == ("ok", "local")
    assert result["brave"] == ("missing", "no key: set WEBDATA_BRAVE_KEY")
    # Browser and store of another machine cannot be checked.
    assert {"browser", "store", "data"}.isdisjoint(result)


@pytest.mark.usefixtures("service")
def test_findings_are_printed_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok   engine_one") and line.endswith("local") for line in lines)
    assert any(line.startswith("-") and "WEBDATA_BRAVE_KEY" in line for line in lines)


@pytest.mark.usefixtures("service")
def test_wrong_key_fails_and_does_not_hide_other_findings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_API_KEY", CANARY)
    result = findings(capsys, 1)
    assert result["service"][0] == "failed"
    assert {"cache", "version", "polars"} <= set(result)


def test_engine_without_usable_provider_fails(
    service: WireService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.engines = [each for each in service.engines if not each["usable"]]
    assert findings(capsys, 1)["engine_one"] == ("failed", "no provider is usable")


def test_service_without_engine_list_is_ok(
    service: WireService, capsys: pytest.CaptureFixture[str]
) -> None:
    def not_found(path: str, _query: dict[str, str]) -> Response | None:
        return JSONResponse({"detail": "none"}, 404) if path == paths.ENGINES else None

    service.fault = not_found
    result = findings(capsys, 0)
    assert (result["service"][0], result["engines"][0]) == ("ok", "missing")


@pytest.mark.usefixtures("service")
def test_unwritable_cache_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "file" / "cache"))
    assert findings(capsys, 0)["cache"][0] == "missing"


@pytest.mark.usefixtures("service")
def test_wrong_setting_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("WEBDATA_TTL", "soon")
        assert findings(capsys, 1)["settings"][0] == "failed"


@pytest.mark.slow
def test_local_service_is_started_and_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    monkeypatch.setenv("WEBDATA_BRAVE_KEY", CANARY)
    monkeypatch.setenv("WEBDATA_ENGINE_TWO", "brave,searxng,local")
    try:
        result = findings(capsys, 0)
    finally:
        session.default_connection().close()
        stop(settings.current())
    assert result["service"][1].endswith(", local")
    assert result["engine_two"] == ("ok", "brave")
    assert result["searxng"] == ("missing", "no address: set WEBDATA_SEARXNG_URL")
    assert result["data"] == ("ok", str(tmp_path / "data"))
    assert result["store"][0] == "ok"
    assert str(tmp_path / "data" / "jobs.sqlite") in result["store"][1]
    assert {"browser", "ocr", "models"} <= set(result)
