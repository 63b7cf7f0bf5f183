"""A page worker returns free memory to the system after a page of many elements."""

from __future__ import annotations

import subprocess
import sys

# In its own process, because `serve` sets a timer that ends the process.
LONG_PAGES = """
import io
from datetime import UTC, datetime
from webdata_nb.service.workers import worker
from webdata_nb.service.content.page_source import PageSource, ConversionOptions
from webdata_nb.service.workers.messages import encode_job

trims = []
worker.malloc.trim = lambda: trims.append(1)
body = b"<title>Long</title><ul>" + b"<li><a href='/%d'>some <b>words</b></a>" * 50_000
url = "http://x.test/"
page = PageSource(url, url, 200, "text/html", body, (), datetime.now(UTC))
job = encode_job((page, ConversionOptions(formats=("markdown", "links")), True))
worker.serve(io.BytesIO(job * 2), io.BytesIO(), 60.0)
print(len(trims))
"""


def test_worker_trims_memory_after_each_long_page() -> None:
    command = [sys.executable, "-c", LONG_PAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 2
