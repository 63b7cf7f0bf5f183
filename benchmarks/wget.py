"""Runs `wget -r`, the most common program for downloading a site."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

# Minimum number of pages for a valid rate.
MIN_PAGES: Final = 490


def measure_wget(url: str, program: Path) -> float:
    """Return the pages per second of `wget -r`, including writing files."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "-q", "-r", "-l", "inf", "--no-parent", "-A", "html,htm", url]
        start = time.perf_counter()
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        elapsed = time.perf_counter() - start
        pages = sum(1 for _ in Path(folder).rglob("*.htm*"))
    # Exit codes for links to an error page (8), which `crawl_df` meets too, and to another port of
    # the host (4).
    if process.returncode not in {0, 4, 8} or pages < MIN_PAGES:
        raise SystemExit(
            f"wget ended with {process.returncode} and {pages} pages: {process.stderr}"
        )
    return pages / elapsed
