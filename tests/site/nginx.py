"""Serves a folder of files with the system's nginx, as a child that ends with this process."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tests.requirements import require

if TYPE_CHECKING:
    from types import TracebackType

_HOST: Final = "127.0.0.1"
_SECONDS: Final = 60.0
# nginx has no wish to end with its parent, so a shell waits for the end of our pipe for it, and
# clears up: whoever holds the other end may have been killed.
_WATCH: Final = (
    'prefix=$1; shift; "$@" & pid=$!; cat >/dev/null; kill "$pid"; wait "$pid"; rm -rf "$prefix"'
)
_CONFIGURATION: Final = """\
{user}daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 512; }}
http {{
  log_format sent '$bytes_sent $status $request_uri';
  access_log {log};
  sendfile on;
  tcp_nodelay on;
  gzip {gzip};
  gzip_types text/plain text/css application/javascript application/json image/svg+xml;
  keepalive_requests 100000;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  default_type application/octet-stream;
  types {{
    text/html html htm;
    text/css css;
    text/plain txt;
    text/xml xml;
    application/javascript js;
    application/json json;
    application/zip zip;
    image/gif gif;
    image/png png;
    image/svg+xml svg;
  }}
  server {{
    listen {host}:{port};
    root "{root}";
    index index.html;
  }}
}}
"""


class NginxSite:
    """The files of a folder, served by nginx on loopback without root rights.

    Parameters
    ----------
    root
        Folder whose files are served; links in it are followed.
    gzip
        Whether nginx compresses for clients that accept it.
    log
        File that gets a line for each reply: bytes sent, status, path; None for no log.

    Raises
    ------
    RuntimeError
        nginx did not answer within ten seconds; the message ends with its error log.
    """

    def __init__(self, root: Path, *, gzip: bool = False, log: Path | None = None) -> None:
        self._program = require("nginx")
        self._root, self._gzip, self._log = root, gzip, log
        self._prefix: Path | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._prefix = Path(tempfile.mkdtemp(prefix="nginx-site-"))
        # nginx takes over a socket that already listens: no free port to guess, none to lose.
        with socket.create_server((_HOST, 0), backlog=511) as listener:
            listener.settimeout(0)  # else nginx waits in `accept` for a client that has left
            port = listener.getsockname()[1]
            self._configure(self._prefix, port)
            self._child = self._spawn(self._prefix, listener.fileno())
        self.url = f"http://{_HOST}:{port}/"
        try:
            self._await_answer(port)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End nginx, which removes its folder; a second call changes nothing."""
        child, self._child = self._child, None
        if child is not None:
            child.communicate(timeout=_SECONDS)

    def _configure(self, prefix: Path, port: int) -> None:
        text = _CONFIGURATION.format(
            # A worker of another user could not read the temporary folders of root's tests.
            user="user root;\n" if os.geteuid() == 0 else "",
            gzip="on" if self._gzip else "off",
            log="off" if self._log is None else f'"{self._log}" sent',
            host=_HOST,
            port=port,
            root=self._root,
        )
        (prefix / "nginx.conf").write_text(text)

    def _spawn(self, prefix: Path, listener: int) -> subprocess.Popen[bytes]:
        program = [str(self._program), "-p", str(prefix), "-c", "nginx.conf", "-e", "error.log"]
        return subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "nginx-site", str(prefix), *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener],
            env={**os.environ, "NGINX": f"{listener};"},
        )

    def _await_answer(self, port: int) -> None:
        connection = HTTPConnection(_HOST, port, timeout=_SECONDS)
        try:
            connection.request("HEAD", "/")
            connection.getresponse().read()
        except OSError as error:
            raise RuntimeError(f"nginx does not answer: {self._errors()}") from error
        finally:
            connection.close()

    def _errors(self) -> str:
        log = self._prefix / "error.log" if self._prefix else None
        return log.read_text() if log is not None and log.exists() else "it wrote no error log"
