"""Wrong options of `webdata worker` and `webdata serve --dask`: one sentence, before any work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.ports import free_port
from tests.postgres import PostgresServer
from tests.shell import Shell
from webdata_nb.service.encryption import new_key
from webdata_nb.service.settings import DaskAddress, parse_dask_address

STORE: Final = "postgresql://ann:canary@127.0.0.1:1/none"
KEY: Final = new_key()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("local:1", DaskAddress(None, 1)),
        ("local:64", DaskAddress(None, 64)),
        ("tls://dask.example.com:8786", DaskAddress("tls://dask.example.com:8786")),
        ("tls://[2001:db8::1]:8786", DaskAddress("tls://[2001:db8::1]:8786")),
        ("tcp://localhost:8786", DaskAddress("tcp://localhost:8786")),
        ("tcp://127.3.2.1:1", DaskAddress("tcp://127.3.2.1:1")),
        ("tcp://[::1]:65535", DaskAddress("tcp://[::1]:65535")),
    ],
)
def test_addresses(text: str, address: DaskAddress) -> None:
    assert parse_dask_address(text, insecure=False) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "local", "local:", "local:-1", "local:x", "dask", "tls://", "tls://host"),
        *("tls://host:0", "tls://host:65536", "tls://host:x", "tls://ann:canary@host:1"),
        *("http://host:1", "ws://host:1", "tls://host:1/path", "tcp://127.0.0.1:1 ", "TLS://h:1"),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="takes tls://HOST:PORT") as error:
        parse_dask_address(text, insecure=True)
    assert "canary" not in str(error.value)


@pytest.mark.parametrize("text", ["local:0", "local:65", "local:9999"])
def test_number_of_local_workers(text: str) -> None:
    with pytest.raises(ValueError, match="1 to 64 worker processes"):
        parse_dask_address(text, insecure=False)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "dask.example.com", "0.0.0.0", "127.0.0.1.example.com", "[2001:db8::1]"]
)
def test_plain_tcp_needs_loopback(host: str) -> None:
    text = f"tcp://{host}:8786"
    with pytest.raises(ValueError, match="can run code on its workers"):
        parse_dask_address(text, insecure=False)
    assert parse_dask_address(text, insecure=True).scheduler == text


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("home"))


TEAM: Final = ("serve", "--mode", "team", "--port", "0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("worker",), "a worker needs the PostgreSQL database of its service"),
        (("worker", "--store", "sqlite"), "a worker needs the PostgreSQL database"),
        (("worker", "--dask", "local:2"), "--dask needs --mode team and --store postgresql://"),
        (("worker", "--dask", "x", "--store", STORE), "--dask takes tls://HOST:PORT"),
        (("worker", "--dask", "local:0", "--store", STORE), "with 1 to 64 worker processes"),
        (("worker", "--dask", "tcp://10.0.0.1:1", "--store", STORE), "--dask-insecure in a"),
        (("worker", "--store", STORE, "--dask-insecure"), "--dask-insecure is for --dask"),
        (("worker", "--dask", "local:1", "--replica", "a"), "for a worker without --dask"),
        (("worker", "--store", STORE, "--slots", "0"), "--slots takes a whole number from 1"),
        (("serve", "--dask", "local:1"), "--dask needs --mode team"),
        ((*TEAM, "--dask", "local:1"), "--dask needs --mode team and --store postgresql://"),
        ((*TEAM, "--store", STORE, "--dask", "tcp://a.b:1"), "--dask-insecure in a network"),
    ],
)
def test_wrong_options_are_one_sentence(
    shell: Shell, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    if words[0] == "serve":
        words = (*words, "--data-dir", str(tmp_path / "data"))
    done = shell.run(*words, WEBDATA_SECRET_KEY=KEY)
    assert done.returncode in {1, 2}
    [line] = done.stderr.splitlines()
    assert message in line
    assert "canary" not in line
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "message"),
    [("tcp", "no Dask scheduler answers at tcp://"), ("tls", "tls:// needs certificates in Dask")],
)
@pytest.mark.parametrize("words", [("worker",), TEAM])
def test_missing_scheduler(
    postgres_server: PostgresServer,
    tmp_path: Path,
    words: tuple[str, ...],
    scheme: str,
    message: str,
) -> None:
    done = Shell(tmp_path).run(
        *(*words, "--dask", f"{scheme}://127.0.0.1:{free_port()}"),
        WEBDATA_SECRET_KEY=KEY,
        WEBDATA_STORE=postgres_server.new_schema(),
    )
    assert done.returncode == 1, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_missing_dask(postgres_server: PostgresServer) -> None:
    code = (
        "import sys; sys.modules['distributed'] = None;"
        "from webdata_nb.__main__ import main; sys.exit(main(['worker', '--dask', 'local:1']))"
    )
    environ = {"WEBDATA_SECRET_KEY": KEY, "WEBDATA_STORE": postgres_server.new_schema()}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=False
    )
    assert done.returncode == 1
    assert 'pip install "webdata_nb[dask]"' in done.stderr
