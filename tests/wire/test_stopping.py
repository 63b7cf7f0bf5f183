"""A service that is asked to stop ends by itself, whatever is open, and no job fails of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.wire.stopping import cancel_crawl, stop_under_load
from tests.wire.waiting import TIMEOUT_S

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]
# A service one of whose threads never returns, and that is asked to stop at once.
HANGING = """
import signal, sys, threading
from pathlib import Path
from webdata_nb.service import app
from webdata_nb.service.store.spool import SpoolDirectory

def never(*_, **__):
    signal.raise_signal(signal.SIGTERM)
    threading.Event().wait()

SpoolDirectory.job_ids = never
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # until the service has set its own
sys.exit(app.serve(data_dir=Path(sys.argv[1])))
"""


def test_a_stop_with_everything_open_fails_no_job(tmp_path: Path) -> None:
    stop_under_load(tmp_path).check()


def test_a_thread_that_never_returns_does_not_keep_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGING, str(tmp_path)]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "not everything ended within 8 s; jobs go on after the next start" in done.stderr


def test_a_cancelled_job_leaves_no_worker_and_no_fetch(tmp_path: Path) -> None:
    # Its worker would never end by itself: the test waits for its end, and can fail.
    found = cancel_crawl(tmp_path)
    assert (found.status, found.fetched_after) == ("cancelled", 0)
