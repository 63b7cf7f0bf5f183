"""The commands `signing-keys`, and a service that starts with their file."""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.signing.keys import AGENT, received_at, secrets_of
from tests.service.signing.verifier import Verifier
from tests.shell import Shell
from tests.site.server import Site
from tests.test_cli import three_pages
from webdata_nb.__main__ import FAILURE, WRONG_USAGE, main
from webdata_nb.service.signing.request_signer import KEY_FILE, SigningKeyFile

KEYID = r"[A-Za-z0-9_-]{43}"
Run = Callable[..., tuple[int, str, str]]
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return what runs a command on the keys of a data directory, and gives code, out and err."""

    def run(action: str, *words: str) -> tuple[int, str, str]:
        code = main(["signing-keys", action, *words, "--data-dir", str(tmp_path / "data")])
        printed = capsys.readouterr()
        if (tmp_path / "data" / KEY_FILE).exists():
            written = (printed.out + printed.err).encode()
            file = SigningKeyFile(tmp_path / "data" / KEY_FILE)
            assert not any(secret in written for secret in secrets_of(file))
        return code, printed.out, printed.err

    return run


def test_keys_are_created_listed_rotated_and_published(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "data" / KEY_FILE
    code, out, error = run("create", f"{AGENT}/")
    assert (code, out) == (0, "")
    created = re.fullmatch(
        rf"webdata: created the key ({KEYID}) in {re.escape(str(path))}\n", error
    )
    assert created is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("list")[1] == f"{AGENT}  {path}\n{created[1]}  signs\n"
    code, _, error = run("create", AGENT)
    assert code == FAILURE
    assert "`webdata signing-keys rotate` replaces its key" in error

    code, _, error = run("rotate", "--start-in", "12")
    rotated = re.search(rf"created the key ({KEYID}), which signs from {TIME}", error)
    assert rotated is not None
    [_, old, new] = run("list")[1].splitlines()
    assert re.fullmatch(rf"{created[1]}  signs, published until {TIME}", old)
    assert re.fullmatch(rf"{rotated[1]}  signs from {TIME}", new)
    keys = SigningKeyFile(path).read().keys
    assert abs(keys[1].starts_at - time.time() - 12 * 3600) < 60
    assert keys[0].ends_at == keys[1].starts_at + 7 * 24 * 3600

    directory = json.loads(run("directory")[1])
    assert [jwk["kid"] for jwk in directory["keys"]] == [created[1], rotated[1]]
    assert all("d" not in jwk for jwk in directory["keys"])

    assert run("rotate", "--start-in", "0", "--keep", "0", "--agent", "https://new.example")[0] == 0
    [head, only] = run("list")[1].splitlines()
    assert head.startswith("https://new.example  ")
    assert only.endswith("  signs")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("create", "http://bot.example.com"), WRONG_USAGE, "not 'http://bot.example.com'"),
        (("create", "https://a:password@b.example"), WRONG_USAGE, "https origin without a path"),
        (("rotate", "--start-in", "-1"), WRONG_USAGE, "--start-in takes hours from 0 to 720"),
        (("rotate", "--keep", "nan"), WRONG_USAGE, "--keep takes days from 0 to 365"),
        (("list",), FAILURE, "`webdata signing-keys create` makes one"),
        (("rotate",), FAILURE, "`webdata signing-keys create` makes one"),
    ],
)
def test_wrong_words_get_one_sentence(
    run: Run, tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    found, out, error = run(*words)
    assert (found, out) == (code, "")
    assert message in error
    assert error.count("\n") == 1
    assert "password" not in error
    assert not (tmp_path / "data").exists()


def test_a_damaged_file_is_to_be_restored_or_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "keys.json"
    path.write_text("{")
    assert main(["signing-keys", "rotate", "--file", str(path)]) == FAILURE
    assert "it is not JSON; restore or remove it; then `webdata" in capsys.readouterr().err


@pytest.mark.slow
def test_the_local_service_signs_with_the_keys_of_its_data_directory(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    create = shell.call("signing-keys", "create", AGENT, "--mode", "local")
    assert create.returncode == 0, create.stderr
    directory = json.loads(shell.call("signing-keys", "directory", "--mode", "local").stdout)
    verifier = Verifier(lambda _agent: directory)
    with Site() as site:
        result = shell.call("crawl", three_pages(site), "--no-cache")
        assert result.returncode == 0, result.stderr
        for hit in site.requests:
            headers = {name.lower(): value for name, value in hit.headers.items()}
            verified = verifier.verify_request(hit.method, hit.path, headers, received_at(hit))
            assert verified.agent == AGENT
        assert len(site.requests) == 4
    assert shell.call("stop").returncode == 0
