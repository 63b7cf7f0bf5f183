"""Serves a folder of files from a thread, for machines without nginx."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from os import PathLike
    from types import TracebackType

_HOST: Final = "127.0.0.1"
_TYPES: Final = {
    ".css": "text/css",
    ".gif": "image/gif",
    ".html": "text/html",
    ".js": "application/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".xml": "text/xml",
    ".zip": "application/zip",
}


class _Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 5.0

    def guess_type(self, path: str | PathLike[str]) -> str:
        """Name the type as `NginxSite` does."""
        return _TYPES.get(Path(path).suffix, "application/octet-stream")

    def list_directory(self, path: str | PathLike[str]) -> None:  # noqa: ARG002 - inherited
        """Refuse, as nginx does."""
        self.send_error(403)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        """Stay quiet."""


class StaticSite:
    """The files of a folder on loopback, with the content types that `NginxSite` gives."""

    def __init__(self, root: Path) -> None:
        handler = partial(_Files, directory=str(root))
        self._server = ThreadingHTTPServer((_HOST, 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self.url = f"http://{_HOST}:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
