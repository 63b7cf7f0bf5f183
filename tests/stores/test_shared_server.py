"""The PostgreSQL server that the processes of a test run share."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests import postgres
from tests.leaked_resources import MARK


@pytest.mark.slow
def test_the_shared_server_is_no_leftover_of_the_process_that_started_it(tmp_path: Path) -> None:
    with postgres.shared(tmp_path) as server:
        pid = (server.folder / "data" / "postmaster.pid").read_text().splitlines()[0]
        assert MARK not in psutil.Process(int(pid)).environ()
    assert not server.folder.exists()
