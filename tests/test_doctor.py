"""`webdata doctor`: what it finds, and what it makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from tests.wire_service import KEY, WireService
from webdata_nb import local, session, settings
from webdata_nb.bridge import synced
from webdata_nb.cli.main import main
from webdata_nb.contract import paths

CANARY = "canary-key-5a0d"


@pytest.fixture(scope="module")
def running() -> Iterator[WireService]:
    with WireService() as running:
        yield running


@pytest.fixture
def service(running: WireService, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireService]:
    running.reset()
    monkeypatch.setattr(session._DEFAULT, "connection", None)
    monkeypatch.setenv("WEBDATA_BASE_URL", running.url)
    monkeypatch.setenv("WEBDATA_API_KEY", KEY)
    yield running
    session.default_connection().close()


def findings(capsys: pytest.CaptureFixture[str], code: int) -> dict[str, tuple[str, str]]:
    """Run the command and return its findings by name."""
    assert main(["doctor", "--json"]) == code
    out = capsys.readouterr().out
    assert CANARY not in out
    told: dict[str, Any] = json.loads(out)
    return {each["name"].strip(): (each["state"], each["text"]) for each in told["findings"]}


@pytest.mark.usefixtures("service")
def test_a_service_elsewhere_tells_its_engines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_BRAVE_KEY", CANARY)
    found = findings(capsys, 0)
    assert found["service"][0] == "ok"
    assert found["engine_one"] == ("ok", "local")
    assert found["brave"] == ("missing", "no key: set WEBDATA_BRAVE_KEY")
    # Browser and store are the service's own, and not looked at here.
    assert {"browser", "store", "data"}.isdisjoint(found)


@pytest.mark.usefixtures("service")
def test_people_read_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok   engine_one") and line.endswith("local") for line in lines)
    assert any(line.startswith("-") and "WEBDATA_BRAVE_KEY" in line for line in lines)


@pytest.mark.usefixtures("service")
def test_a_wrong_key_fails_and_the_rest_is_told_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_API_KEY", CANARY)
    found = findings(capsys, 1)
    assert found["service"][0] == "failed"
    assert {"cache", "version", "search"} <= set(found)


def test_an_engine_that_can_ask_nobody_fails(
    service: WireService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.engines = [each for each in service.engines if not each["usable"]]
    assert findings(capsys, 1)["engine_one"] == ("failed", "no provider is usable")


def test_a_service_that_lists_no_engines_is_fine(
    service: WireService, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere(path: str, _query: dict[str, str]) -> Response | None:
        return JSONResponse({"detail": "none"}, 404) if path == paths.ENGINES else None

    service.fault = nowhere
    found = findings(capsys, 0)
    assert (found["service"][0], found["engines"][0]) == ("ok", "missing")


@pytest.mark.usefixtures("service")
def test_a_cache_that_cannot_be_written_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "file" / "cache"))
    assert findings(capsys, 0)["cache"][0] == "missing"


@pytest.mark.usefixtures("service")
def test_a_setting_that_cannot_be_right_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("WEBDATA_TTL", "soon")
        assert findings(capsys, 1)["settings"][0] == "failed"


@pytest.mark.slow
def test_the_local_service_is_started_and_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session._DEFAULT, "connection", None)
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    monkeypatch.setenv("WEBDATA_BRAVE_KEY", CANARY)
    monkeypatch.setenv("WEBDATA_ENGINE_TWO", "brave,searxng,local")
    try:
        found = findings(capsys, 0)
    finally:
        session.default_connection().close()
        synced(local.stop)(settings.current())
    assert found["service"][1].endswith(", local")
    assert found["engine_two"] == ("ok", "brave, local")
    assert found["searxng"] == ("missing", "no address: set WEBDATA_SEARXNG_URL")
    assert found["data"] == ("ok", str(tmp_path / "data"))
    assert found["store"][0] == "ok"
    assert str(tmp_path / "data" / "jobs.sqlite") in found["store"][1]
    assert {"browser", "ocr", "models"} <= set(found)
