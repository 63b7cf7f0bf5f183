"""Hostile inputs leave the service answering; `benchmarks.hostile_inputs` runs them all."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.openapi.service_process import team
from tests.wire.hostile_inputs import INPUTS, Hostile, Probe, under

pytestmark = pytest.mark.slow

# Each of these once kept the event loop busy for 3.6 s to 30 s, or took 117 MB for good.
BUSY_S = 2.5
MEMORY_MB = 500
SHORT = (
    "path patterns",
    "sitemap: 2 million attributes",
    "robots.txt: 270 x 900 wildcards",
    "CSS selectors of 450 KB",
    "the same, facets",
)


@pytest.mark.parametrize(
    "hostile", [each for each in INPUTS if each.name in SHORT], ids=lambda each: each.name
)
def test_the_service_answers_meanwhile(tmp_path: Path, hostile: Hostile) -> None:
    with team(tmp_path, "--allow-network", "127.0.0.0/8") as served:
        report = under(hostile, served.url, served.headers, served.process.pid)
    assert report.failed_probes == 0
    assert 0 < report.longest_busy_s < BUSY_S
    assert report.losses == 0
    assert report.peak_mb < MEMORY_MB


# Answers each request after half a second: of work, or of waiting.
SLOW_SERVER = """
import http.server, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if sys.argv[1] == "works":
            end = time.process_time() + 0.5
            while time.process_time() < end:
                pass
        else:
            time.sleep(0.5)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize(("kind", "is_busy"), [("works", True), ("waits", False)])
def test_a_probe_tells_work_of_the_event_loop_from_waiting(kind: str, *, is_busy: bool) -> None:
    command = [sys.executable, "-c", SLOW_SERVER, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        with Probe(url, server.pid) as probe:
            while not probe.busy_seconds:
                time.sleep(0.01)
        server.kill()
    assert probe.failures == 0
    assert min(probe.seconds) > 0.4
    assert (max(probe.busy_seconds) > 0.4) == is_busy


def test_every_input_of_the_short_run_is_there() -> None:
    assert {each.name for each in INPUTS} >= set(SHORT)
