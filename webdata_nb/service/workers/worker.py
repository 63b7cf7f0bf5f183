"""A page worker: a process that turns pages into data until its input closes.

`python -m webdata_nb.service.workers.worker CPU_SECONDS MEMORY_BYTES` reads pages from standard
input and writes their data to standard output, in order, as ``worker_messages`` describes. It
holds nothing that outlives a page, so it may be killed at any time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from webdata_nb.service.content.source import ScrapeOptions, Source
from webdata_nb.service.errors import ScrapeError
from webdata_nb.service.extract import structured
from webdata_nb.service.runtime import gc_tuning
from webdata_nb.service.scrape.page import scrape
from webdata_nb.service.scrape.scraped import Scraped
from webdata_nb.service.workers.messages import (
    SIZES,
    Answer,
    Job,
    decode_job,
    encode_answer,
)

# Pages after which a worker's memory is what it needs, and not what its largest page needed.
GIVE_BACK_EVERY: Final = 16
# Processor seconds of a page that leaves so much behind that it is given back at once.
LONG_S: Final = 0.05
# When Python looks for cycles. A page makes hundreds of thousands of objects and no cycle, and each
# look goes through all that it has made so far: two thirds of the time of a page of many links.
# What cycles there are end with the worker, which is replaced now and then.
COLLECTOR: Final = (100_000, 50, 1000)


def answer(job: Job) -> bytes:
    """Do one page; what it fails with is an answer too."""
    try:
        return encode_answer(_page(job))
    except MemoryError:
        return encode_answer(("memory_limit", "the page needs more memory than a page may have"))
    except Exception as error:  # noqa: BLE001 - whatever a page provokes is that page's failure
        return encode_answer(("parse", f"the page could not be read ({type(error).__name__})"))


def _page(job: Job) -> Answer:
    source, options, outlinks = job
    try:
        if options.schema is None:
            return scrape(source, options, outlinks=outlinks)
        return _scrape_and_extract(source, options, options.schema, outlinks=outlinks)
    except ScrapeError as error:
        return error.kind, str(error)


def _scrape_and_extract(
    source: Source, options: ScrapeOptions, schema: str, *, outlinks: bool
) -> Scraped:
    asked = [name for name in options.formats if name != structured.EXTRACTION]
    formats = tuple(dict.fromkeys((*asked, *structured.SOURCES)))
    inner = replace(options, formats=formats, encoded=False)
    scraped = scrape(source, inner, outlinks=outlinks)
    made = scraped.formats
    made[structured.EXTRACTION] = structured.extract_from_formats(made, scraped.metadata, schema)
    scraped = replace(scraped, formats={name: made[name] for name in options.formats})
    return scraped.encoded() if options.encoded else scraped


def work(pages: BinaryIO, answers: BinaryIO, cpu_seconds: float) -> None:
    """Answer page after page; a page that takes too long ends the process."""
    timer = getattr(signal, "setitimer", None)
    give_back, done = memory_return(), 0
    while len(sizes := pages.read(SIZES.size)) == SIZES.size:
        head, body = map(pages.read, SIZES.unpack(sizes))
        begun = time.process_time()
        if timer is not None:
            # Processor time of this process alone; the signal's default action ends it.
            timer(signal.ITIMER_PROF, cpu_seconds)
        answers.write(answer(decode_job(head, body)))
        answers.flush()
        done += 1
        if done % GIVE_BACK_EVERY == 0 or time.process_time() - begun > LONG_S:
            give_back()


def limit_memory(extra: int) -> None:
    """Let this process grow by `extra` bytes at most, where the system can see to it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - POSIX only

        pages_now = int(Path("/proc/self/statm").read_text().split()[0])
        ceiling = pages_now * os.sysconf("SC_PAGE_SIZE") + extra
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))


def memory_return() -> Callable[[], object]:
    """Return what has the C library give back what pages have left, where it keeps it (glibc)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return lambda: None
    return lambda: trim(0)


def answers() -> BinaryIO:
    """Return where answers go; whatever else is written to standard output goes with the errors."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def main() -> None:
    """Serve the parent whose pipes are our input and output."""
    cpu_seconds, memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    # The terminal's Ctrl-C is for the parent, which then closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_memory(memory_bytes)
    gc_tuning.calm(*COLLECTOR)
    with contextlib.suppress(BrokenPipeError):
        work(sys.stdin.buffer, answers(), cpu_seconds)
    # The parent is gone or has no more pages; there is nothing to clean up.
    os._exit(0)


if __name__ == "__main__":
    main()
