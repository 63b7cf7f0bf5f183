"""Runs `wget -r`, the most common program for downloading a site."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

# Pages that it has to get before its pace counts.
LEAST: Final = 490


def mirrored(url: str, program: Path) -> float:
    """Return pages a second of `wget -r`, files written."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "-q", "-r", "-l", "inf", "--no-parent", "-A", "html,htm", url]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        elapsed = time.perf_counter() - start
        pages = sum(1 for _ in Path(folder).rglob("*.htm*"))
    # Some link led to an error page (8), as it does for `crawl_df`, or to another port (4), which
    # is the same host to wget.
    if done.returncode not in {0, 4, 8} or pages < LEAST:
        raise SystemExit(f"wget ended with {done.returncode} and {pages} pages: {done.stderr}")
    return pages / elapsed
