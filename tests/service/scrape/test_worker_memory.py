"""A page worker gives back at once what a page of many elements leaves behind."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own, for the work sets a timer that ends its process.
LONG_PAGES = """
import io
from datetime import UTC, datetime
from webdata_nb.service.workers import worker
from webdata_nb.service.content.page_source import PageSource, ConversionOptions
from webdata_nb.service.workers.messages import encode_job

given_back = []
worker.memory_trimmer = lambda: lambda: given_back.append(1)
body = b"<title>Long</title><ul>" + b"<li><a href='/%d'>some <b>words</b></a>" * 50_000
url = "http://x.test/"
page = PageSource(url, url, 200, "text/html", body, (), datetime.now(UTC))
job = encode_job((page, ConversionOptions(formats=("markdown", "links")), True))
worker.serve(io.BytesIO(job * 2), io.BytesIO(), 60.0)
print(len(given_back))
"""


def test_a_long_page_leaves_nothing_behind() -> None:
    command = [sys.executable, "-c", LONG_PAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 2
