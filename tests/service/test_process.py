"""The number of processors that a service may use: its affinity, and limits of control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from webdata_nb.service.runtime.process import available_processors

COUNT = "from webdata_nb.service.workers.pool import default_workers; print(default_workers())"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_a_process_with_one_processor_has_one_page_worker() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        output = subprocess.check_output([sys.executable, "-c", COUNT], text=True)
    finally:
        os.sched_setaffinity(0, allowed)
    assert int(output) == 1


@pytest.mark.parametrize(
    ("own_cgroups", "files", "expected"),
    [
        # Version 2: a container, a unit of systemd, and a unit in a limited slice.
        ("0::/\n", {"cpu.max": "100000 100000"}, 1),
        ("0::/\n", {"cpu.max": "150000 100000"}, 2),
        ("0::/\n", {"cpu.max": "1000 100000"}, 1),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/a.slice/b.service\n", {"a.slice/b.service/cpu.max": "100000 100000"}, 1),
        ("0::/a.slice/b.service\n", {"a.slice/cpu.max": "100000 100000"}, 1),
        ("0::/a.slice/b.service\n", {"cpu.max": "100000 100000"}, 1),
        # Version 1, also where a container's own group is at the mount point.
        (
            "4:cpu,cpuacct:/docker/abc\n1:memory:/docker/abc\n",
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "100000",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            1,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        # Nothing to read.
        ("", {}, None),
        ("broken", {"cpu.max": "broken"}, None),
    ],
)
def test_limits_of_control_groups(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_cgroups: str,
    files: dict[str, str],
    expected: int | None,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    (tmp_path / "own").write_text(own_cgroups)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = available_processors(tmp_path / "cgroup", tmp_path / "own")
    assert found == (8 if expected is None else expected)


def test_missing_files_are_no_limit(tmp_path: Path) -> None:
    assert available_processors(tmp_path / "none", tmp_path / "none") >= 1
