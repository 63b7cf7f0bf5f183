"""Turns pages into data in a separate process, until its input closes.

`python -m webdata_nb.service.workers.worker CPU_SECONDS MEMORY_BYTES` reads pages from standard
input and writes their data to standard output, in order, in the format of ``messages``. The process
keeps nothing between pages, so it may be killed at any time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from dataclasses import replace
from typing import BinaryIO, Final

import msgspec
import orjson

from webdata_nb import malloc
from webdata_nb.page.content.page_source import SOURCE, ConversionOptions, FetchedResponse
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.extract.results import EVIDENCE, EXTRACTION
from webdata_nb.page.scrape.page import scrape
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.runtime.process import configure_gc, limit_memory
from webdata_nb.service.workers.messages import (
    OUT_OF_MEMORY,
    SIZES,
    PageJob,
    PageReply,
    decode_job,
    encode_reply,
)

# Unused memory goes back to the system after this many pages,
RELEASE_EVERY_PAGES: Final = 16
# or after a page of this much processor time, which leaves much behind.
RELEASE_AFTER_S: Final = 0.05
# A page creates hundreds of thousands of objects, and each collection visits all of them: two
# thirds of the time of a page with many links. HTML leaves no reference cycle behind, but the
# libraries that read other documents do; `release_memory` collects them between pages.
GC_THRESHOLDS: Final = (100_000, 50, 1000)


def process_page(job: PageJob) -> bytes:
    """Return the encoded reply to a job; a failure is a reply too."""
    try:
        return encode_reply(_read_page(job))
    except MemoryError:
        return encode_reply(("memory_limit", OUT_OF_MEMORY))
    except Exception as error:  # noqa: BLE001 - any error is the failure of its page
        return encode_reply(("parse", f"the page could not be read ({type(error).__name__})"))


def _read_page(job: PageJob) -> PageReply:
    source, options, outlinks = job
    try:
        if options.extracted is not None:
            # Most workers never extract: their start and their memory go without.
            from webdata_nb.page.extract.evidence.evidence import (  # noqa: PLC0415
                find_evidence,
            )

            page = source.load_body().body.decode("utf-8", "replace")
            extracted = orjson.loads(options.extracted)  # noqa: TID251 - written by the other process
            found = find_evidence(page, extracted, url=source.final_url)
            formats = {EVIDENCE: msgspec.to_builtins(found)}
            return Scraped(None, formats, {}, {}, (), None, frozenset(), "", "")
        if options.schema is None:
            return _with_source(scrape(source, options, outlinks=outlinks))
        scraped = _scrape_and_extract(source, options, options.schema, outlinks=outlinks)
        return _with_source(scraped)
    except ScrapeError as error:
        return error.kind, str(error)


def _with_source(scraped: Scraped) -> Scraped:
    """Return a document without HTML with its text as its source."""
    if scraped.formats.get(SOURCE) != "":
        return scraped
    formats = {**scraped.formats, SOURCE: scraped.text}
    return msgspec.structs.replace(scraped, formats=formats)


def _scrape_and_extract(
    source: FetchedResponse, options: ConversionOptions, schema: str, *, outlinks: bool
) -> Scraped:
    from webdata_nb.page.extract import structured  # noqa: PLC0415

    requested_formats = [name for name in options.formats if name != EXTRACTION]
    formats = tuple(dict.fromkeys((*requested_formats, *structured.source_formats(schema))))
    inner = replace(options, formats=formats, encoded=False)
    scraped = scrape(source, inner, outlinks=outlinks)
    values = scraped.formats
    values[EXTRACTION] = structured.extract_from_formats(
        values, scraped.metadata, schema, has_text=bool(scraped.text.strip())
    )
    requested = {name: values[name] for name in options.formats}
    scraped = msgspec.structs.replace(scraped, formats=requested)
    return scraped.encoded() if options.encoded else scraped


def serve(jobs: BinaryIO, replies: BinaryIO, cpu_seconds: float) -> None:
    """Reply to one job after another. A page that takes too long ends the process."""
    set_timer = getattr(signal, "setitimer", None)
    page_count = 0
    while len(sizes := jobs.read(SIZES.size)) == SIZES.size:
        head, body = map(jobs.read, SIZES.unpack(sizes))
        cpu_start = time.process_time()
        if set_timer is not None:
            # This signal, by its default action, ends the process. It counts its own time only.
            set_timer(signal.ITIMER_PROF, cpu_seconds)
        replies.write(process_page(decode_job(head, body)))
        replies.flush()
        page_count += 1
        long = time.process_time() - cpu_start > RELEASE_AFTER_S
        if long or page_count % RELEASE_EVERY_PAGES == 0:
            release_memory()


def release_memory() -> None:
    """Collect reference cycles and return free memory to the system."""
    gc.collect()
    malloc.trim()


def take_standard_output() -> BinaryIO:
    """Return standard output for replies, and redirect all other writes to standard error."""
    sys.stdout.flush()
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return replies


def main() -> None:
    """Serve the parent process over standard input and output."""
    cpu_seconds, memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    # A terminal sends Ctrl-C to the whole group; the parent handles it and closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_memory(memory_bytes)
    malloc.tune()
    configure_gc(*GC_THRESHOLDS)
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, take_standard_output(), cpu_seconds)
    # The parent has ended or has no more pages; there is nothing to clean up.
    os._exit(0)


if __name__ == "__main__":
    main()
