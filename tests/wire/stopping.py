"""A team's service with everything open at once, to be stopped; and a crawl to be cancelled."""

from __future__ import annotations

import fcntl
import signal
import socket
import struct
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from tests.openapi.service_process import ServiceProcess, team
from tests.processes import arguments_of
from tests.site.document import document
from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.wire.waiting import TIMEOUT_S
from webdata_nb.contract import paths

ALLOW_LOOPBACK = ("--allow-network", "127.0.0.0/8")
CLIENTS = 5
LARGE_CRAWLS = 12
TERMINAL_STATES = {"completed", "failed", "cancelled"}


def client(served: ServiceProcess) -> httpx.Client:
    return httpx.Client(
        base_url=served.url, headers=served.headers, trust_env=False, timeout=TIMEOUT_S
    )


def crawl(http: httpx.Client, url: str, **fields: Any) -> str:
    """Start a crawl."""
    reply = http.post(paths.CRAWL, json={"url": url, **fields}).raise_for_status().json()
    return str(reply["job_id"])


def wait_for_end(http: httpx.Client, job_id: str) -> dict[str, Any]:
    """Wait for the end of a crawl."""
    while True:
        path = f"/v1/crawl/{job_id}"
        reply: dict[str, Any] = http.get(path, params={"per_page": 1000}).raise_for_status().json()
        if reply["status"] in TERMINAL_STATES:
            return reply
        http.get(f"{path}/events")


@dataclass(frozen=True, slots=True)
class StopResult:
    """The duration, exit code and log of a stop, and the replies about its jobs after a restart.

    `expected` are the addresses that the rows of each job must have.
    """

    seconds: float
    code: int
    log_text: str
    replies: Sequence[dict[str, Any]]
    expected: Sequence[str]

    @property
    def is_forced(self) -> bool:
        """Whether the process exited at its deadline, with something still open."""
        return "not everything ended" in self.log_text

    def check(self) -> None:
        """Raise `AssertionError` unless the process exited well, and no job failed."""
        assert self.code == 0
        assert [(reply["status"], reply["error"]) for reply in self.replies] == [
            ("completed", None)
        ] * len(self.replies)
        for reply in self.replies:
            assert [row["url"] for row in reply["data"]] == list(self.expected)


def stop_under_load(home: Path) -> StopResult:
    """Stop a service in the middle of crawls, streams and slow clients; start it again."""
    with Site() as site:
        pages = link_tree(site, depth=2, fanout=3)
        gate = site.hold(pages[5])
        with team(home, *ALLOW_LOOPBACK) as served, client(served) as http, ExitStack() as stack:
            big = _large(site, http)
            jobs = [crawl(http, site.at("/tree")) for _ in range(CLIENTS)]
            site.wait_for(pages[5], count=CLIENTS, timeout=TIMEOUT_S)
            for job_id in jobs:
                stack.enter_context(_streaming(http, job_id))
                stack.enter_context(_unread(served, big))
                stack.enter_context(_unfinished_request(served))
            key, began = served.key, time.monotonic()
            served.process.send_signal(signal.SIGTERM)
            code = served.process.wait(timeout=TIMEOUT_S)
            seconds, log_text = time.monotonic() - began, served.ended()
        gate.release()
        with team(home, *ALLOW_LOOPBACK, key=key) as served, client(served) as http:
            replies = [wait_for_end(http, job_id) for job_id in jobs]
        return StopResult(seconds, code, log_text, replies, [site.at(path) for path in pages])


def _large(site: Site, http: httpx.Client) -> str:
    """Crawl pages whose status is larger than what the kernel takes off a service's hands."""
    children = [f"/big/{number}" for number in range(LARGE_CRAWLS)]
    site.page("/big", document("Big", links=children))
    for child in children:
        site.page(child, f"<title>{child}</title><p>{'word ' * 200_000}</p>")
    formats = {"formats": ["raw_html"]}
    job_id = crawl(http, site.at("/big"), scrape_options=formats)
    assert wait_for_end(http, job_id)["status"] == "completed"
    return job_id


@contextmanager
def _streaming(http: httpx.Client, job_id: str) -> Iterator[None]:
    """Listen to a job that goes on."""
    with http.stream("GET", f"/v1/crawl/{job_id}/events") as answer:
        next(answer.iter_raw())
        yield


def _connection(served: ServiceProcess) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(TIMEOUT_S)
    sock.connect(("127.0.0.1", urlsplit(served.url).port))
    return sock


@contextmanager
def _unread(served: ServiceProcess, job_id: str) -> Iterator[None]:
    """Ask for a large reply, and read no more than its beginning."""
    with closing(_connection(served)) as sock:
        path = f"/v1/crawl/{job_id}?per_page=1000"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.key}\r\n\r\n"
        sock.sendall(head.encode())
        assert sock.recv(12) == b"HTTP/1.1 200"
        yield


@contextmanager
def _unfinished_request(served: ServiceProcess) -> Iterator[None]:
    """Begin a request, and never end it."""
    with closing(_connection(served)) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        yield


@dataclass(frozen=True, slots=True)
class CancelResult:
    """What a cancellation came to: seconds until its answer, and until its worker had ended."""

    answered_s: float
    ended_s: float
    fetched_after: int
    status: str


def cancel_crawl(home: Path) -> CancelResult:
    """Cancel a crawl with a fetch under way, and a page whose worker would never end by itself."""
    with Site() as site:
        site.page("/warm", document("Warm"))
        site.page("/page", document("Page", links=[f"/held/{n}" for n in range(20)]))
        for number in range(20):
            site.page(f"/held/{number}", document(f"Held {number}"))
        gate = site.hold("/held/0")
        with team(home, *ALLOW_LOOPBACK) as served, client(served) as http:
            wait_for_end(http, crawl(http, site.at("/warm")))
            crawled = crawl(http, site.at("/page"))
            site.wait_for("/held/0", timeout=TIMEOUT_S)
            stuck = _workers(served)
            for worker in stuck:
                worker.suspend()
            busy = crawl(http, site.at("/warm"))
            site.wait_for("/warm", count=2, timeout=TIMEOUT_S)
            _wait_for_unread_page(stuck)
            began = time.monotonic()
            for job_id in (busy, crawled):
                http.post(f"/v1/jobs/{job_id}/cancel").raise_for_status()
            answered_s, requests = time.monotonic() - began, len(site.requests)
            psutil.wait_procs(stuck, timeout=TIMEOUT_S)
            ended_s = time.monotonic() - began
            assert not any(map(_is_alive, stuck))
            gate.release()
            wait_for_end(http, crawl(http, site.at("/warm")))  # the service goes on
            after = [hit for hit in site.requests[requests:] if not hit.path.startswith("/warm")]
            statuses = {wait_for_end(http, job_id)["status"] for job_id in (busy, crawled)}
        fetched = len([hit for hit in after if hit.path != "/robots.txt"])
        return CancelResult(answered_s, ended_s, fetched, ",".join(statuses))


def _wait_for_unread_page(workers: Sequence[psutil.Process]) -> None:
    """Wait until a page lies in the pipe of one of these processes, none of which reads."""
    late = time.monotonic() + TIMEOUT_S
    # On a slow machine, the service may have replaced one, as it had a page and did not go on.
    while all(map(_is_alive, workers)) and not any(map(_unread_bytes, workers)):
        assert time.monotonic() < late
        time.sleep(0.01)


def _unread_bytes(process: psutil.Process) -> int:
    with Path(f"/proc/{process.pid}/fd/0").open("rb", buffering=0) as pipe:
        count = fcntl.ioctl(pipe, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", count)[0])


def _workers(served: ServiceProcess) -> list[psutil.Process]:
    children = psutil.Process(served.process.pid).children()
    return [each for each in children if "webdata_nb.service.workers.worker" in arguments_of(each)]


def _is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
