"""Finds the evidence of extracted values in a page worker, which limits time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import orjson

from webdata_nb.page.content.page_source import ConversionOptions, PageSource
from webdata_nb.page.extract.evidence.judgement import ValueEvidence
from webdata_nb.page.extract.evidence.messages import EVIDENCE
from webdata_nb.service.pages.page_pipeline import PageScraper

_NO_URL: Final = "http://page.invalid/"


async def find_evidence(
    pages: PageScraper, page: str, url: str, data: Mapping[str, Any]
) -> list[ValueEvidence]:
    """Return the evidence of the values that were extracted from a page.

    Parameters
    ----------
    pages
        The page workers.
    page
        The source of the page.
    url
        Its URL; empty if it is unknown.
    data
        The extracted data.

    Raises
    ------
    PageError
        A worker failed at this page.
    """
    at = url or _NO_URL
    body = page.encode("utf-8", "replace")
    source = PageSource(at, at, 200, "text/html; charset=utf-8", body, (), datetime.now(UTC))
    options = ConversionOptions(
        formats=(EVIDENCE,), facts=frozenset(), extracted=orjson.dumps(data).decode()
    )
    scraped = await pages.scrape(source, options, outlinks=False)
    return msgspec.convert(scraped.formats[EVIDENCE], list[ValueEvidence])
