"""More connections than there are places for, over real sockets: who is answered all the same."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import psutil
import pytest
from prometheus_client import generate_latest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.shell import TIMEOUT_S, Shell
from webdata_nb.service.http import connections as connections_module
from webdata_nb.service.http.client_limits import PER_ACCOUNT, ClientLimits, address_of
from webdata_nb.service.http.connections import MAX_CONNECTIONS, ConnectionLimiter
from webdata_nb.service.observability.logs import EVENTS
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.server import Server, listen

pytestmark = pytest.mark.slow

CONNECTIONS = 1000
LARGE = bytes(8_000_000)  # more than the socket buffers of both sides hold
PIECE_BYTES = 50_000
STRANGER = "127.0.0.2"  # the loopback network has more addresses than the one that is trusted
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(port: int, address: str = "127.0.0.1") -> AsyncIterator[Pair]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        return dict(json.loads(self.body))


async def ask(pair: Pair, path: str, **headers: str) -> Answer:
    """Ask on an open connection; the body is read where its length is known."""
    reader, writer = pair
    named = {"Host": "127.0.0.1", **{name.replace("_", "-"): v for name, v in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rest = head.strip().split("\r\n")
    response_headers = {
        name.lower(): value for name, value in (line.split(": ", 1) for line in rest)
    }
    length = int(response_headers.get("content-length", "0"))
    return Answer(int(first.split()[1]), response_headers, await reader.readexactly(length))


async def ask_once(port: int, path: str, address: str = "127.0.0.1", **headers: str) -> Answer:
    async with connected(port, address) as pair:
        return await ask(pair, path, **headers)


@dataclass(slots=True)
class BlockingApp:
    """An application whose answers to `/wait` come when they are let go."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    inside: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/wait":
            self.inside.release()
            await self.go.wait()
        host = scope["client"][0]
        response = Response("well", headers={"X-Client": host})
        if scope["path"] == "/large":
            response = Response(LARGE)
        if scope["path"] == "/pieces":
            pieces = (LARGE[:PIECE_BYTES] for _ in range(len(LARGE) // PIECE_BYTES))
            headers = {"Content-Length": str(len(LARGE))}
            response = StreamingResponse(pieces, headers=headers)
        await response(scope, receive, send)


@asynccontextmanager
async def serving(connections: ConnectionLimiter) -> AsyncIterator[tuple[int, BlockingApp]]:
    app = BlockingApp()
    with listen("127.0.0.1", 0) as sock:
        server = Server(app, connections)
        task = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                yield sock.getsockname()[1], app
        finally:
            app.go.set()
            server.should_exit = True
            await task


async def wait_there(
    open_connections: AsyncExitStack, port: int, app: BlockingApp, **headers: str
) -> None:
    """Leave a request under way, on a connection of its own."""
    pair = await open_connections.enter_async_context(
        connected(port, headers.pop("address", "127.0.0.1"))
    )
    task = asyncio.create_task(ask(pair, "/wait", **headers))
    open_connections.callback(task.cancel)
    await app.inside.acquire()


async def test_the_longest_idle_connection_makes_room_for_a_new_one() -> None:
    connections = ConnectionLimiter(most=3, reserved=0)
    async with serving(connections) as (port, _), AsyncExitStack() as open_connections:
        three = [await open_connections.enter_async_context(connected(port)) for _ in range(3)]
        for pair in (three[1], three[0]):
            assert (await ask(pair, "/")).status == 200
        assert (await ask_once(port, "/")).status == 200
        # It was the oldest, and had asked for nothing; a request of it may be under way.
        refused = await ask(three[2], "/")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert await three[2][0].read() == b""
        for pair in three[:2]:
            assert (await ask(pair, "/")).status == 200


async def test_where_all_are_busy_health_checks_alone_are_answered() -> None:
    connections = ConnectionLimiter(most=2, reserved=1)
    async with serving(connections) as (port, app), AsyncExitStack() as open_connections:
        for _ in range(2):
            await wait_there(open_connections, port, app)
        for _ in range(3):
            healthy = await ask_once(port, "/healthz")
            assert (healthy.status, healthy.headers["connection"]) == (200, "close")
        refused = await ask_once(port, "/v1/jobs")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert "too many connections" in str(refused.json["detail"])
        # Whoever sits in the reserved place and asks for nothing makes room as well.
        await open_connections.enter_async_context(connected(port))
        assert (await ask_once(port, "/readyz")).status == 200
        app.go.set()
        while (await ask_once(port, "/v1/jobs")).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_without_any_place_the_answer_comes_at_once() -> None:
    connections = ConnectionLimiter(most=1, reserved=0)
    async with serving(connections) as (port, app), AsyncExitStack() as open_connections:
        await wait_there(open_connections, port, app)
        async with connected(port) as (reader, _):
            said = await reader.read()
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in said


async def test_one_address_has_its_share_and_a_trusted_proxy_any_number() -> None:
    connections = ConnectionLimiter(ClientLimits(per_address=2), most=50, reserved=1)
    async with serving(connections) as (port, app), AsyncExitStack() as open_connections:
        for _ in range(2):
            await wait_there(open_connections, port, app, address=STRANGER)
        refused = await ask_once(port, "/v1/jobs", STRANGER)
        assert (refused.status, refused.json["code"]) == (429, "rate")
        assert "retry-after" in refused.headers
        assert (await ask_once(port, "/healthz", STRANGER)).status == 200
        assert (await ask_once(port, "/v1/jobs", "127.0.0.3")).status == 200
        for _ in range(5):
            await wait_there(open_connections, port, app)
        assert (await ask_once(port, "/v1/jobs")).status == 200


async def test_idle_connections_of_an_address_make_room_for_its_own() -> None:
    connections = ConnectionLimiter(ClientLimits(per_address=2), most=50, reserved=0)
    async with serving(connections) as (port, _), AsyncExitStack() as open_connections:
        for _ in range(9):
            await open_connections.enter_async_context(connected(port, STRANGER))
        assert (await ask_once(port, "/v1/jobs", STRANGER)).status == 200


async def test_behind_a_trusted_proxy_the_named_client_has_the_limit() -> None:
    connections = ConnectionLimiter(ClientLimits(per_address=2), most=50, reserved=0)
    async with serving(connections) as (port, app), AsyncExitStack() as open_connections:
        client = {"X_Forwarded_For": "198.51.100.9, 203.0.113.5"}
        for _ in range(2):
            await wait_there(open_connections, port, app, **client)
        refused = await ask_once(port, "/v1/jobs", **client)
        assert (refused.status, refused.json["code"]) == (429, "rate")
        assert (await ask_once(port, "/healthz", **client)).status == 200
        other = await ask_once(port, "/v1/jobs", X_Forwarded_For="203.0.113.6")
        assert (other.status, other.headers["x-client"]) == (200, "203.0.113.6")
        # What the client itself wrote in front is not believed, nor what a stranger says.
        spoofed = await ask_once(port, "/", X_Forwarded_For="192.0.2.1, 203.0.113.7")
        assert spoofed.headers["x-client"] == "203.0.113.7"
        stranger = await ask_once(port, "/", STRANGER, X_Forwarded_For="192.0.2.1")
        assert stranger.headers["x-client"] == STRANGER


def server_sockets(port: int) -> int:
    """Count the sockets of this process that serve clients of `port`."""
    sockets = psutil.Process().net_connections(kind="tcp")
    return sum(each.laddr.port == port and bool(each.raddr) for each in sockets)


async def request_unread(open_connections: AsyncExitStack, port: int, path: str) -> Pair:
    """Send a request and read only the first byte of its reply."""
    pair = await open_connections.enter_async_context(connected(port))
    pair[1].write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await pair[0].readexactly(1)
    return pair


async def status_or_none(port: int) -> int | None:
    with suppress(OSError, asyncio.IncompleteReadError):
        return (await ask_once(port, "/")).status
    return None


@pytest.mark.parametrize("path", ["/large", "/pieces"])
async def test_clients_that_read_nothing_do_not_keep_their_connections(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "UNREAD_TIMEOUT_S", 0.5)
    monkeypatch.setattr(connections_module, "_CHECK_INTERVAL_S", 0.05)
    async with (
        serving(ConnectionLimiter(most=5, reserved=0)) as (port, _),
        AsyncExitStack() as open_connections,
    ):
        for _ in range(5):
            await request_unread(open_connections, port, path)
        while await status_or_none(port) != 200:  # noqa: ASYNC110 - the server's own clock
            await asyncio.sleep(0.05)
        while server_sockets(port) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_unread_replies_make_room_for_new_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections_module, "_CHECK_INTERVAL_S", 0.05)
    async with (
        serving(ConnectionLimiter(most=3, reserved=0)) as (port, _),
        AsyncExitStack() as open_connections,
    ):
        for _ in range(3):
            await request_unread(open_connections, port, "/large")
        while await status_or_none(port) != 200:  # noqa: ASYNC110 - the server's own clock
            await asyncio.sleep(0.05)


async def test_a_reply_that_is_read_is_not_cut_for_a_new_connection() -> None:
    async with (
        serving(ConnectionLimiter(most=1, reserved=0)) as (port, _),
        AsyncExitStack() as open_connections,
    ):
        reader, _ = await request_unread(open_connections, port, "/large")
        await reader.readuntil(b"\r\n\r\n")
        assert (await ask_once(port, "/")).status == 503
        assert len(await reader.readexactly(len(LARGE))) == len(LARGE)


async def test_a_refused_request_is_read_before_its_reply() -> None:
    """Unread data would reset the connection, and the client would lose the reply."""
    async with (
        serving(ConnectionLimiter(most=1, reserved=0)) as (port, app),
        AsyncExitStack() as open_connections,
    ):
        await wait_there(open_connections, port, app)
        reader, writer = await open_connections.enter_async_context(connected(port))
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n")
        writer.write(bytes(500_000))
        await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")


async def test_a_slow_reader_gets_its_whole_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "UNREAD_TIMEOUT_S", 2.0)
    monkeypatch.setattr(connections_module, "_CHECK_INTERVAL_S", 0.05)
    async with (
        serving(ConnectionLimiter(most=2, reserved=0)) as (port, _),
        AsyncExitStack() as open_connections,
    ):
        for path in ("/large", "/pieces"):
            reader, _ = await request_unread(open_connections, port, path)
            await reader.readuntil(b"\r\n\r\n")
            left = len(LARGE)
            while left:
                left -= len(await reader.read(200_000))
                await asyncio.sleep(0.05)


async def test_refusals_are_counted_and_written_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", logger=EVENTS)
    counted: Counter[str] = Counter()

    def count(limit: str) -> None:
        counted[limit] += 1

    limits = ClientLimits(per_address=1)
    connections = ConnectionLimiter(limits, most=3, reserved=1, on_refusal=count)
    async with serving(connections) as (port, app), AsyncExitStack() as open_connections:
        for _ in range(2):
            await wait_there(open_connections, port, app)
        await wait_there(open_connections, port, app, X_Forwarded_For="192.0.2.1")
        for _ in range(3):  # each in the reserved place
            assert (await ask_once(port, "/v1/jobs")).status == 503
        assert counted == {"total": 3}
        assert (await ask_once(port, "/healthz")).status == 200
        assert counted == {"total": 3}
    connections = ConnectionLimiter(limits, most=9, reserved=0, on_refusal=count)
    async with serving(connections) as (port, app), AsyncExitStack() as open_connections:
        await wait_there(open_connections, port, app, address=STRANGER)
        for _ in range(2):
            async with connected(port, STRANGER) as (reader, _writer):
                assert (await reader.read()).startswith(b"HTTP/1.1 429 ")
        await wait_there(open_connections, port, app, X_Forwarded_For="192.0.2.1")
        assert (await ask_once(port, "/v1/jobs", X_Forwarded_For="192.0.2.1")).status == 429
        assert counted == {"total": 3, "address": 3}
    written = [each.getMessage() for each in caplog.records if each.name == EVENTS]
    assert written == ["connection_refused limit=total", "connection_refused limit=address"]


def test_the_metric_of_refusals() -> None:
    metrics = Metrics()
    metrics.count_refused_connection("address")
    text = generate_latest(metrics.registry).decode()
    assert 'webdata_connections_refused_total{limit="address"} 1.0' in text


def test_what_stands_for_a_client() -> None:
    assert address_of("2001:db8:0:1::5") == address_of("2001:db8:0:1:ffff::9")
    assert address_of("2001:db8:0:1::5") != address_of("2001:db8:0:2::5")
    assert address_of("unknown") == "unknown"
    assert ClientLimits().trusts("::ffff:127.0.0.1")
    assert not ClientLimits().trusts("unix:socket")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("many"))


@pytest.fixture(scope="module")
def keys(shell: Shell) -> dict[str, str]:
    made = {}
    for name in ("alice", "bob"):
        made[name] = shell.run("keys", "create", "--name", name).stdout.strip()
    return made


@pytest.fixture(scope="module")
def team(shell: Shell, keys: dict[str, str]) -> Iterator[int]:
    assert keys
    words = ("--mode", "team", "--port", "0", "--allow-network", "127.0.0.0/8")
    with shell.start("serve", *words) as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "serves http://" in line)
            yield int(said.rsplit(":", 1)[1])
        finally:
            process.terminate()
            process.communicate(timeout=TIMEOUT_S)


@pytest.mark.parametrize("address", ["127.0.0.1", STRANGER])
async def test_idle_connections_without_a_key_keep_nobody_out(
    team: int, keys: dict[str, str], address: str
) -> None:
    bob = {"Authorization": f"Bearer {keys['bob']}"}
    async with AsyncExitStack() as open_connections, asyncio.timeout(TIMEOUT_S):
        for _ in range(MAX_CONNECTIONS + 100):
            await open_connections.enter_async_context(connected(team, address))
        for path in ("/healthz", "/readyz", "/v1/jobs", "/v1/usage"):
            assert (await ask_once(team, path, **bob)).status == 200, path


async def test_event_streams_of_one_account_keep_nobody_out(
    team: int, keys: dict[str, str]
) -> None:
    alice = {"Authorization": f"Bearer {keys['alice']}"}
    bob = {"Authorization": f"Bearer {keys['bob']}"}

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await over.wait()
        writer.close()

    over = asyncio.Event()
    async with (
        await asyncio.start_server(silent, "127.0.0.1", 0) as site,
        AsyncExitStack() as open_connections,
        asyncio.timeout(2 * TIMEOUT_S),
    ):
        open_connections.callback(over.set)
        url = f"http://127.0.0.1:{site.sockets[0].getsockname()[1]}/"
        job = await start(team, url, alice)
        response_headers: Counter[int] = Counter()
        for _ in range(CONNECTIONS):
            pair = await open_connections.enter_async_context(connected(team))
            answer = await ask(pair, f"/v1/crawl/{job}/events", **alice)
            response_headers[answer.status] += 1
            if answer.status == 429:
                assert answer.json["code"] == "rate"
                assert answer.headers["x-concurrency-limit"].isdecimal()
        assert response_headers == {
            200: PER_ACCOUNT * 3 // 4,
            429: CONNECTIONS - PER_ACCOUNT * 3 // 4,
        }
        for path in ("/healthz", "/v1/jobs"):
            for who in (bob, alice):
                assert (await ask_once(team, path, **who)).status == 200


async def start(port: int, url: str, headers: dict[str, str]) -> str:
    """Start a crawl; return its job's id."""
    body = json.dumps({"url": url}).encode()
    async with connected(port) as (reader, writer):
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(
            f"POST /v1/crawl HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{head}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        said = await reader.read()
    return str(json.loads(said.partition(b"\r\n\r\n")[2])["job_id"])
