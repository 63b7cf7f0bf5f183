"""Converts pages with the code of one checkout; `page_cpu` starts it with that checkout first.

Each line of standard input is a JSON list of a mode and the path of a labelled set or of a folder
with HTML files. The reply is a line with a JSON list: the processor seconds of each page.
"""

from __future__ import annotations

import json
import sys
import tarfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape
from webdata_nb.service.runtime.process import configure_gc
from webdata_nb.service.workers.worker import GC_THRESHOLDS

EVERY: Final = 3
"""One of so many pages is measured."""
MODES: Final = {
    "main content": ConversionOptions(facts=frozenset({"metadata", "quality", "shape"})),
    "whole page": ConversionOptions(
        only_main_content=False, facts=frozenset({"metadata", "quality", "shape"})
    ),
}


def load(path: Path) -> list[FetchedResponse]:
    """Return the measured pages of a labelled set or a folder."""
    pages = load_folder(path) if path.is_dir() else load_set(path)
    now = datetime.now(UTC)
    return [FetchedResponse(url, url, 200, "text/html", html, (), now) for html, url in pages]


def load_set(path: Path) -> list[tuple[bytes, str]]:
    """Return measured pages of a labelled set, with their URLs."""
    with tarfile.open(path) as tar:
        files = {
            member.name.split("/", 1)[1]: file.read()
            for member in tar
            if (file := tar.extractfile(member)) is not None
        }
    truth = json.loads(files["truth.json"])
    return [(files[f"pages/{key}.html"], truth[key]["url"]) for key in sorted(truth)[::EVERY]]


def load_folder(folder: Path) -> list[tuple[bytes, str]]:
    """Return measured pages of a folder and its subfolders, with URLs of a made-up site."""
    return [
        (path.read_bytes(), f"https://docs.test/{path.relative_to(folder).as_posix()}")
        for path in sorted(folder.rglob("*.html"))[::EVERY]
    ]


def measure(page: FetchedResponse, options: ConversionOptions) -> float:
    """Return the processor seconds of converting a page."""
    start = time.process_time()
    scrape(page, options)
    return time.process_time() - start


def main() -> None:
    """Convert the pages named on standard input."""
    sets: dict[str, list[FetchedResponse]] = {}
    configure_gc(*GC_THRESHOLDS)  # as a page worker does
    for line in sys.stdin:
        mode, path = json.loads(line)
        if path not in sets:
            sets[path] = load(Path(path))
        print(json.dumps([measure(page, MODES[mode]) for page in sets[path]]), flush=True)


if __name__ == "__main__":
    main()
