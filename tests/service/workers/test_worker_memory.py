"""A page worker keeps nothing of the pages it has read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.requirements import require

# In its own process, because `serve` sets a timer that ends the process.
COMMON = """
import gc, io, sys
from datetime import UTC, datetime
from pathlib import Path
from webdata_nb.service.workers import worker
from webdata_nb.page.content.page_source import FetchedResponse, ConversionOptions
from webdata_nb.service.workers.messages import encode_job
from tests.page.documents.office_files import paragraph, run, word_file

def job(body, formats=("markdown", "html", "links", "headings", "structured_data"), main=True):
    url = "http://x.test/"
    page = FetchedResponse(url, url, 200, None, body, (), datetime.now(UTC))
    return encode_job((page, ConversionOptions(formats=formats, only_main_content=main), True))

def serve(jobs):
    worker.serve(io.BytesIO(b"".join(jobs)), io.BytesIO(), 60.0)
"""

LONG_PAGES = """
trims = []
worker.malloc.trim = lambda: trims.append(1)
body = b"<title>Long</title><ul>" + b"<li><a href='/%d'>some <b>words</b></a>" * 50_000
serve([job(body, ("markdown", "links"))] * 2)
print(len(trims))
"""

# Documentation without dates, and an article with dates, a product, formulas and footnotes.
HTML_PAGES = """
article = b'''<title>Budget raised</title><meta name=author content=Ann>
<script type="application/ld+json">
{"@type": "Product", "name": "A", "offers": {"price": 5}}</script>
<article><h1>Budget raised</h1><p>Posted on 5 May 2024 by Ann</p><p>Some text of more words.
<sup><a href="#fn1" id="r1">1</a></sup> <span class=math>\\\\(x^2\\\\)</span></p>
<pre><code class="language-python">print(1)</code></pre><table><tr><td>1<td>2</table>
<ol class=footnotes><li id=fn1>A note. <a href="#r1">back</a></ol></article>'''
pages = [article] + [path.read_bytes() for path in sorted(Path(sys.argv[1]).glob("*.html"))[:20]]
jobs = [job(page, main=main) for page in pages for main in (True, False)]
worker.release_memory = lambda: None
serve(jobs[:2])
gc.collect()
gc.disable()
serve(jobs)
print(gc.collect())
"""

DOCUMENTS = """
office = word_file(paragraph(run("Some text")))
text = b"Title\\n=====\\n\\nA text_.\\n\\n.. _text: http://x.test/b\\n\\n* a list\\n"
assert worker.RELEASE_EVERY_PAGES % 2 == 0
serve([job(office), job(text)] * worker.RELEASE_EVERY_PAGES)
print(gc.collect())
"""


def output(program: str, *arguments: str) -> int:
    command = [sys.executable, "-c", COMMON + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
def test_worker_trims_memory_after_each_long_page() -> None:
    assert output(LONG_PAGES) == 2


def test_html_leaves_no_reference_cycles() -> None:
    assert output(HTML_PAGES, str(require("python-docs"))) == 0


def test_reference_cycles_of_documents_are_collected() -> None:
    assert output(DOCUMENTS) == 0
