"""What follows from the declaration of an option of `webdata serve` and `webdata worker`."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest

from webdata_nb.__main__ import build_parser, main
from webdata_nb.service.app import serve
from webdata_nb.service.encryption import new_key
from webdata_nb.service.job_workers.claim_loop import worker_options
from webdata_nb.service.job_workers.command import run_worker
from webdata_nb.service.settings import (
    OPTIONS,
    SECRET_KEY,
    Command,
    InvalidSetting,
    ServiceSettings,
    options_of,
)

MODES = ("local", "team")
FUNCTIONS: Any = {"serve": serve, "worker": run_worker}


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_functions_have_the_options_of_their_command(command: Command) -> None:
    function, names = FUNCTIONS[command], [option.name for option in options_of(command)]
    signature = inspect.signature(function)
    assert list(signature.parameters) == names
    assert signature.parameters["slots"].default == OPTIONS["slots"].default
    documentation = inspect.getdoc(function) or ""
    lines = documentation.partition("Parameters\n")[2].partition("\nReturns")[0].splitlines()
    assert [line for line in lines if line in names] == names
    with pytest.raises(TypeError, match="slot"):
        function(data_dir=Path("unused"), slot=3)


def test_a_worker_takes_no_option_of_http() -> None:
    names = {option.name for option in options_of("worker")}
    assert {"store", "slots", "proxy"} <= names
    assert not {"host", "webhook_pages", "trusted_proxies", "managed"} & names


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_every_option_has_its_flag(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    for option in options_of(command):
        assert (f" {option.flag}" in text) != option.is_hidden


def test_an_omitted_flag_leaves_its_default() -> None:
    args = vars(build_parser().parse_args(["serve"]))
    assert {args[option.name] for option in options_of("serve")} == {None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"port": -1}, "--port takes a number from 0 to 65535"),
        ({"slots": 257}, "--slots takes a whole number from 1 to 256, not 257"),
        (
            {"requests_per_account": 0},
            "--requests-per-account takes a whole number from 1, not 0",
        ),
        (
            {"blobs": "file://a"},
            (
                "--blobs (WEBDATA_BLOBS) takes a file URL with three slashes and an absolute path, "
                "such as file:///srv/webdata-files"
            ),
        ),
        (
            {"mode": "team", "store": "postgresql://u@h:99999/d"},
            (
                "--store (WEBDATA_STORE): the port is a number up to 65535, as in "
                "postgresql://USER:PASSWORD@HOST:5432/DATABASE; special characters of the password "
                "must be percent-encoded"
            ),
        ),
        (
            {"allow_networks": ("10.1.2.3/8",)},
            "--allow-network takes a network such as 10.1.0.0/16: 10.1.2.3/8 has host bits set",
        ),
        ({"webhook_pages": True}, "--webhook-pages needs --webhook-profile B, which has the event"),
        ({"dask_insecure": True}, "--dask-insecure is for --dask tcp://HOST:PORT"),
        ({"metrics": "x"}, "--metrics takes HOST:PORT, such as 127.0.0.1:9100"),
    ],
)
def test_messages_name_flag_and_variable(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting) as raised:
        ServiceSettings.checked({"data_dir": Path("unused"), **given})
    assert str(raised.value) == message


def test_defaults_depend_on_the_mode(tmp_path: Path) -> None:
    local, team = (ServiceSettings.checked({"data_dir": tmp_path, "mode": m}) for m in MODES)
    assert (local.port, local.webhook_loopback) == (0, True)
    assert (team.port, team.webhook_loopback) == (8000, False)
    chosen = {"data_dir": tmp_path, "mode": "team", "port": 0, "webhook_loopback": True}
    settings = ServiceSettings.checked(chosen)
    assert (settings.port, settings.webhook_loopback) == (0, True)


def test_workers_are_sent_what_may_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_KEY, new_key())
    given = {
        "data_dir": tmp_path,
        "mode": "team",
        "store": "postgresql://u:password@h/d",
        "proxy": "http://u:password@h:1",
        "allow_networks": ["10.1.0.0/16"],
        "slots": 3,
    }
    options = worker_options(ServiceSettings.checked(given))
    secret = {field.name for field in dataclasses.fields(ServiceSettings) if not field.repr}
    assert {"store", "proxy", "blobs"} <= secret
    assert not options["sent"].keys() & secret
    assert (options["sent"]["slots"], options["needs"]) == (3, ["proxy"])
    assert "password" not in str(options)
