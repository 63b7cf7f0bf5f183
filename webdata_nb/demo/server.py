"""Serves the sample web on the loopback interface, from a thread of this process."""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Final, Self

from webdata_nb.demo.pages import SampleWeb

if TYPE_CHECKING:
    from types import TracebackType

_HOST: Final = "127.0.0.1"
# How many ports are tried from the chosen one on.
_PORTS: Final = 100
_LAST_PORT: Final = 65_535


class SampleSite:
    """The sample web, served while the context is open.

    Parameters
    ----------
    port
        Where to listen: the next free port if another program uses it, any free one if it is 0.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> with SampleSite() as site:
    ...     page = urlopen(site.url + "articles/").read()
    >>> b"aurora forecast" in page
    True
    """

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._server: _SampleServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Address of the front page, with its closing slash.

        Raises
        ------
        RuntimeError
            The site is not being served.
        """
        if self._server is None:
            raise RuntimeError("the sample site is not running: use `with SampleSite() as site:`")
        return f"{self._server.origin}/"

    def start(self) -> Self:
        """Start the server; a second call changes nothing."""
        if self._server is None:
            self._server = _open_server(self._port)
            self._thread = threading.Thread(
                target=self._server.serve_forever,
                kwargs={"poll_interval": 0.05},
                name="sample-site",
                daemon=True,
            )
            self._thread.start()
        return self

    def close(self) -> None:
        """Stop the server and close all connections; a second call changes nothing."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.shutdown()
            server.close_connections()
            server.server_close()
            thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _SampleHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "SampleSite"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1  # sends head and body in one packet
    timeout = 60.0
    server: _SampleServer

    def do_GET(self) -> None:
        self._send_reply(with_body=True)

    def do_HEAD(self) -> None:
        self._send_reply(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        """Log nothing, since the tour prints to the same terminal."""

    def _send_reply(self, *, with_body: bool) -> None:
        reply = self.server.web.reply(self.path)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        if reply.location is not None:
            self.send_header("Location", reply.location)
        self.end_headers()
        if with_body:
            self.wfile.write(reply.body)


def _open_server(port: int) -> _SampleServer:
    """Listen on a port, or on one of those after it: addresses stay as long, as tables cut them."""
    later = range(port + 1, min(port + _PORTS, _LAST_PORT + 1)) if port else ()
    for number in (port, *later):
        with suppress(OSError):
            return _SampleServer(number)
    return _SampleServer(0)


class _SampleServer(ThreadingHTTPServer):
    daemon_threads = False  # server_close waits for the handlers
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((_HOST, port), _SampleHandler)
        self.origin = f"http://{_HOST}:{self.server_port}"
        self.web = SampleWeb(self.origin)

    def server_bind(self) -> None:
        # HTTPServer.server_bind looks up the full name of this host, which may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = _HOST, int(self.server_address[1])

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        with self._lock:
            self._connections.add(connection)
        return connection, address

    def close_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        with self._lock:
            self._connections.discard(request)
        super().close_request(request)

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Report every error except a connection that the client closed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def close_connections(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client has closed it
