"""A page worker that some pages take over: the path of a page's URL says what it then sends.

Started as `python -m` this module in the place of the real worker, with the same arguments.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from webdata_nb.page.content.page_source import ConversionOptions
from webdata_nb.page.scrape.page import scrape
from webdata_nb.service.workers import worker
from webdata_nb.service.workers.messages import SIZES, PageJob, decode_job, encode_reply


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path(self.path),)


def frame_message(head: bytes, parts: bytes = b"") -> bytes:
    return SIZES.pack(len(head), len(parts)) + head + parts


def reply_to(job: PageJob) -> bytes:
    url = urlsplit(job[0].url)
    harmful = pickle.dumps(Touch(url.query))
    honest = worker.process_page(job)
    head_size, _ = SIZES.unpack_from(honest)
    return {
        "/pickle": frame_message(harmful),
        "/pickle-behind": frame_message(honest[SIZES.size : SIZES.size + head_size], harmful),
        "/old-frame": len(harmful).to_bytes(4, "big") + harmful,
        "/garbage": os.urandom(100),
        "/zeros": bytes(1000),
        "/huge": SIZES.pack(2**32 - 1, 2**32 - 1) + bytes(1_000_000),
        "/truncated": honest[:-5],
        "/twice": honest + honest,
        "/flood": honest + b"x" * 50_000_000,
        "/other-formats": encode_reply(scrape(job[0], ConversionOptions(("html",)))),
        "/nothing": b"",
    }.get(url.path, honest)


def main() -> None:
    pages, answers = sys.stdin.buffer, worker.take_standard_output()
    while len(sizes := pages.read(SIZES.size)) == SIZES.size:
        head, body = map(pages.read, SIZES.unpack(sizes))
        job = decode_job(head, body)
        answers.write(reply_to(job))
        answers.flush()
        path = urlsplit(job[0].url).path
        if path in {"/truncated", "/nothing"}:
            return
        if path == "/huge":
            time.sleep(60)


if __name__ == "__main__":
    main()
