"""Runs nginx with the configuration of `deploy/`, in which only the addresses are replaced."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.requirements import require

DEPLOY: Final = Path(__file__).resolve().parent.parent.parent / "deploy"
_STOP_S: Final = 30.0
_ROOT: Final = 0
UPSTREAM: Final = re.compile(r"(?<=server )[\d.]+:\d+(?= max_fails=0;)")
_LISTEN: Final = re.compile(r"(?<=listen )8080(?=;)")
# A shell waits for the end of our pipe and then stops nginx: this process may be killed.
_WATCH: Final = '"$@" & pid=$!; cat >/dev/null; kill "$pid"; wait "$pid"'


def configuration(ports: tuple[int, int], listen: str) -> str:
    """Return nginx.conf with two replicas of this machine, and an address to listen on."""
    addresses = [f"127.0.0.1:{port}" for port in ports]
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    text, replaced = UPSTREAM.subn(lambda _: addresses.pop(0), text)
    text, listening = _LISTEN.subn(listen, text)
    if (replaced, listening) != (2, 1):
        raise ValueError(f"nginx.conf has {replaced} upstreams and {listening} addresses")
    return text


class ReverseProxy:
    """nginx in front of two replicas of this machine, until the context is closed."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self._program = require("nginx")
        self._ports = ports
        self.url = ""

    def __enter__(self) -> Self:
        self._prefix = Path(tempfile.mkdtemp(prefix="nginx-proxy-"))
        # nginx takes over a socket that listens already: its port is free.
        with socket.create_server(("127.0.0.1", 0), backlog=511) as listener:
            # nginx leaves it as it is: a worker that comes second to a connection would wait in
            # `accept` for the next one, and its clients with it.
            listener.settimeout(0)
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            (self._prefix / "nginx.conf").write_text(configuration(self._ports, address))
            with (self._prefix / "error.log").open("wb") as log:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _WATCH, "nginx-proxy", *self.command(self._prefix)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    pass_fds=[listener.fileno()],
                    env={**os.environ, "NGINX": f"{listener.fileno()};"},
                )
        self.url = f"http://{address}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=_STOP_S)
        shutil.rmtree(self._prefix, ignore_errors=True)

    def command(self, prefix: Path) -> list[str]:
        """Return the command of compose.yaml, with another prefix."""
        # The workers of a root process run as nobody, who may not enter the folder of the tests.
        user = " user root;" if os.geteuid() == _ROOT else ""
        directives = f"daemon off;{user}"
        return [
            *(str(self._program), "-p", str(prefix), "-c", str(prefix / "nginx.conf")),
            *("-g", directives),
        ]

    @property
    def errors(self) -> str:
        """What nginx logged."""
        return (self._prefix / "error.log").read_text("utf-8")
