"""Serves the sample web on the loopback interface, from a thread of this process."""

from __future__ import annotations

import re
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from importlib.resources.abc import Traversable
from socketserver import TCPServer
from typing import Final, Self
from urllib.parse import parse_qsl, urlsplit

# Generates the reply of the sample web to each request target, without network access.


_ORIGIN: Final = "{{origin}}"
_REDIRECTS: Final = {"/articles/aurora.html": "/articles/reading-an-aurora-forecast.html"}
_FAILING_PATH: Final = "/instruments/anemometer-3.html"
_SHOP_PATH: Final = "/shop/"
_CARD: Final = re.compile(
    r'<li class="card" data-color="(?P<color>\w+)" data-price="(?P<price>[\d.]+)">'
    r".*?<h2><a [^>]*>(?P<name>.*?)</a></h2>.*?</li>\n",
    re.DOTALL,
)
_CARD_LIST: Final = re.compile(r"(?<=<!-- cards -->\n).*?(?=<!-- /cards -->)", re.DOTALL)
_CONTENT_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "xml": "application/xml",
}
# Charset and content type of pages in older charsets: one page names its charset only in the
# header, the other only in its <meta>.
_CHARSETS: Final = {
    "/archive/1931-logbook.html": ("windows-1252", "text/html; charset=windows-1252"),
    "/archive/letter-from-gdansk.html": ("iso-8859-2", "text/html"),
}


@dataclass(frozen=True, slots=True)
class SampleReply:
    """An HTTP reply; only a redirect has a `location`."""

    status: int
    content_type: str
    body: bytes
    location: str | None = None


class SampleWeb:
    """The pages of the sample web, with absolute addresses below `origin`.

    Parameters
    ----------
    origin
        Scheme, host and port of the server, for canonical addresses, the feed and the sitemap.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._files = dict(_read_files(resources.files(__package__) / "site", "/"))

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all files; the path of an index file is that of its directory."""
        return tuple(sorted(self._files))

    def reply(self, target: str) -> SampleReply:
        """Return the reply to a request target, such as ``/shop/?sort=price``."""
        parts = urlsplit(target)
        path = parts.path
        if path in self._files:
            suffix = "html" if path.endswith("/") else path.rpartition(".")[2]
            charset, content_type = _CHARSETS.get(path, ("utf-8", _CONTENT_TYPES[suffix]))
            body = self._files[path]
            if suffix == "png":
                return SampleReply(200, content_type, body)
            text = body.decode().replace(_ORIGIN, self._origin)
            if path == _SHOP_PATH:
                query = dict(parse_qsl(parts.query))
                text = _CARD_LIST.sub(lambda cards: _select_cards(cards[0], query), text)
            return SampleReply(200, content_type, text.encode(charset))
        if path in _REDIRECTS:
            return _redirect(_REDIRECTS[path])
        if f"{path}/" in self._files:
            return _redirect(f"{path}/")
        if path == _FAILING_PATH:
            return _error_page(
                500, "Anemometer 3 does not answer", "It has been silent since March."
            )
        return _error_page(404, "No such page", "The wind may have taken it.")


def _select_cards(cards: str, query: dict[str, str]) -> str:
    """Filter the cards by colour and sort them; other parameters have no effect."""
    color = query.get("color")
    selected = [card for card in _CARD.finditer(cards) if color in {None, card["color"]}]
    match query.get("sort"):
        case "price":
            selected.sort(key=lambda card: float(card["price"]))
        case "name":
            selected.sort(key=lambda card: card["name"])
    return "".join(card[0] for card in selected)


def _redirect(location: str) -> SampleReply:
    return SampleReply(301, _CONTENT_TYPES["txt"], b"Moved.\n", location)


def _error_page(status: int, title: str, text: str) -> SampleReply:
    html = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><title>{title}</title></head>\n'
        f'<body><h1>{title}</h1><p>{text} <a href="/">Back to the front page</a></p></body>\n'
        "</html>\n"
    )
    return SampleReply(status, _CONTENT_TYPES["html"], html.encode())


def _read_files(folder: Traversable, path: str) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            files += _read_files(entry, f"{path}{entry.name}/")
        else:
            files.append((path + entry.name.removesuffix("index.html"), entry.read_bytes()))
    return files


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
            # On one of the next ports, addresses stay as long, as tables cut them.
            port = self._port
            later = range(port + 1, min(port + _PORTS, _LAST_PORT + 1)) if port else ()
            for number in (port, *later):
                with suppress(OSError):
                    self._server = _SampleServer(number)
                    break
            else:
                self._server = _SampleServer(0)
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

    def __exit__(self, *_: object) -> None:
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
