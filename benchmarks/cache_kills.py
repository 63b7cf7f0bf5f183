"""Counts unreadable cache files after a hundred SIGKILLs of a cache writer.

The count must be 0. A peer that writes the same table in place is killed as often, for comparison.

    python -m benchmarks.cache_kills [kills]
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HEAD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
import pyarrow.parquet as pq
from webdata_nb.toolkit.cache import snapshots
from webdata_nb.toolkit.frames import rows
question = snapshots.CacheKey.of("crawl", base_url="x", identity="y", params={})
table = rows.to_table("crawl", [{"url": f"u{n}", "markdown": "mark " * 2000} for n in range(300)])
root = Path(sys.argv[1])
print("ready", flush=True)
while True:
"""
OURS = HEAD + '    snapshots.put(root, question, table, {"n": 1}, now=datetime.now(UTC))\n'
PEER = HEAD + '    pq.write_table(table, root / f"{datetime.now(UTC).timestamp()}.parquet")\n'


def killed(program: str, root: Path) -> None:
    """Start a writer, and kill it at a random moment."""
    process = subprocess.Popen([sys.executable, "-c", program, str(root)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(random.random() * 0.15)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def count_and_remove(root: Path) -> tuple[int, int]:
    """Remove all files; return how many were unreadable, and how many there were."""
    unreadable = total = 0
    for file in root.rglob("*.parquet"):
        total += 1
        try:
            unreadable += pq.read_table(file).num_rows != 300
        except (OSError, pa.ArrowException):
            unreadable += 1
        file.unlink()
    return unreadable, total


def main() -> None:
    """Run the kills and print the counts."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    counts = {"ours": [0, 0], "in place": [0, 0]}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(kills):
            for name, program in (("ours", OURS), ("in place", PEER)):
                killed(program, Path(folder))
                unreadable, total = count_and_remove(Path(folder))
                counts[name][0] += unreadable
                counts[name][1] += total
    for name, (unreadable, total) in counts.items():
        print(f"{name}: {unreadable} of {total} files unreadable after {kills} kills")
    sys.exit(counts["ours"][0] > 0)


if __name__ == "__main__":
    main()
