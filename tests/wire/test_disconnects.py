"""A client that hangs up, in the middle of its request or of the answer, is no fault of ours."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.openapi.service_process import ServiceProcess, team
from tests.shell import TIMEOUT_S
from tests.site.document import document
from tests.site.server import Site
from tests.sockets import reset_on_close, wait_until_read
from tests.wire.stopping import client, crawl, wait_for_end
from webdata_nb.contract import paths

pytestmark = pytest.mark.slow

OPTIONS = ("--allow-network", "127.0.0.0/8", "--log-format", "json", "--metrics", "127.0.0.1:0")
JSON = "Content-Type: application/json\r\n"


def reset(sock: socket.socket) -> None:
    reset_on_close(sock)
    sock.close()


def send_partial_request(
    served: ServiceProcess, method: str, path: str, headers: str = "", body: str = ""
) -> socket.socket:
    """Send a request, or the beginning of one."""
    sock = socket.socket()
    # So that a large answer cannot leave the service.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(TIMEOUT_S)
    sock.connect(("127.0.0.1", urlsplit(served.url).port))
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.key}\r\n"
    sock.sendall(f"{head}{headers}\r\n{body}".encode())
    return sock


def status_counts(served: ServiceProcess) -> dict[str, float]:
    found = re.search(r"metrics at (http://[^\s\"]+)", "".join(served.output_lines))
    assert found is not None
    text = httpx.get(found[1], trust_env=False, timeout=TIMEOUT_S).text
    counts: dict[str, float] = {}
    for labels, value in re.findall(r"webdata_http_requests_total\{(.*?)\} (\S+)", text):
        status = re.search(r'status="(\d+)"', labels)
        assert status is not None
        counts[status[1]] = counts.get(status[1], 0) + float(value)
    return counts


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net/tcp")
@pytest.mark.parametrize("hang_up", [socket.socket.close, reset], ids=["close", "reset"])
def test_a_caller_that_hangs_up_is_no_error(
    tmp_path: Path, hang_up: Callable[[socket.socket], None]
) -> None:
    halves = [
        ("POST", paths.CRAWL, f"{JSON}Content-Length: 100\r\n", '{"url"'),
        ("POST", paths.SEARCH, f"{JSON}Content-Length: 100\r\n", ""),
        ("POST", paths.SEARCH, f"{JSON}Transfer-Encoding: chunked\r\n", '5\r\n{"que\r\n'),
        ("POST", paths.JOB_CANCEL.format(job_id="x"), f"{JSON}Content-Length: 9\r\n", "{"),
        ("POST", paths.CREATIVES, f"{JSON}Content-Length: 100\r\n", "{"),
        ("POST", paths.WEBHOOK_TEST, f"{JSON}Content-Length: 100\r\n", "{"),
    ]
    with Site() as site, team(tmp_path, *OPTIONS) as served, client(served) as http:
        site.page("/big", document("Big", links=[f"/big/{number}" for number in range(6)]))
        for number in range(6):
            site.page(f"/big/{number}", f"<title>{number}</title><p>{f'word{number} ' * 200_000}")
        gate = site.hold("/held")
        held = crawl(http, site.at("/held"))
        big = crawl(http, site.at("/big"), scrape_options={"formats": ["raw_html"]})
        assert wait_for_end(http, big)["status"] == "completed"
        for half in halves:
            sock = send_partial_request(served, *half)
            wait_until_read(sock)  # the service waits for the rest
            hang_up(sock)
        answers = [f"/v1/crawl/{big}?per_page=1000", f"/v1/crawl/{held}/events"]
        answers += [f"/v1/crawl/{big}/export?format={form}" for form in ("json", "csv", "zip")]
        for path in answers:
            sock = send_partial_request(served, "GET", path)
            assert sock.recv(12) == b"HTTP/1.1 200"
            hang_up(sock)
        send_partial_request(served, "GET", paths.JOBS).close()
        gate.release()
        wait_for_end(http, held)
        late = time.monotonic() + TIMEOUT_S
        while status_counts(served).get("499", 0) < len(halves):
            assert time.monotonic() < late, status_counts(served)
            time.sleep(0.05)
        counts = status_counts(served)
        served.process.send_signal(signal.SIGTERM)
        output_lines = served.ended()
    assert set(counts) <= {"200", "499"}
    lines = [json.loads(line) for line in output_lines.splitlines() if line.startswith("{")]
    assert [line for line in lines if line["level"] not in {"info", "debug"}] == []
    assert [line for line in lines if "exception" in line] == []
    assert "Traceback" not in output_lines
    assert sum(line.get("status") == 499 for line in lines) == len(halves)
