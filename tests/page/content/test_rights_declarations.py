"""What a page declares about its use, and the bounds of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import pytest

from webdata_nb.contract.choices import Purpose
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.content.parsed_page import (
    MAX_DECLARATIONS,
    MAX_LICENSE_LINKS,
    PageDeclaration,
)
from webdata_nb.page.scrape.page import scrape
from webdata_nb.service.crawl.rights.page_signals import PageSignals
from webdata_nb.service.crawl.rights.signal import PageRights

URL: Final = "https://a.test/"
OPTIONS: Final = ConversionOptions(formats=(), facts=frozenset({"rights"}))
NOAI: Final = "<meta name=robots content=noai>"


def declarations_of(body: str) -> tuple[PageDeclaration, ...]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    page = FetchedResponse(URL, URL, 200, "text/html", body.encode(), (), at)
    return scrape(page, OPTIONS).declarations


def refusal(body: str, purpose: Purpose) -> str | None:
    signals = PageSignals(URL, "2026-01-01T00:00:00+00:00", "ExampleBot")
    return PageRights(tuple(signals.of_declarations(declarations_of(body)))).refusal(purpose)


def licenses(count: int) -> str:
    """Return the markup of licences that say nothing, all different."""
    return "".join(
        f"<script type=application/rsl+xml><rsl>{number}</rsl></script>" for number in range(count)
    )


def test_meta_tags_are_read_beyond_the_licence_limit() -> None:
    assert (
        refusal(licenses(1000) + NOAI, "ai-train") == f'<meta name="robots" content="noai"> ({URL})'
    )


@pytest.mark.parametrize(
    "body",
    [
        licenses(MAX_DECLARATIONS + 1),
        "".join(f"<meta name=robots content='noai-{n}'>" for n in range(MAX_DECLARATIONS + 1)),
        "".join(
            f"<link rel=license type=application/rsl+xml href=/{n}>"
            for n in range(MAX_LICENSE_LINKS + 1)
        ),
    ],
)
def test_declarations_beyond_the_limit_count_as_refusal(body: str) -> None:
    assert refusal(body, "search") == f"more declarations than are read ({URL})"
    assert len(declarations_of(body)) <= MAX_DECLARATIONS


@pytest.mark.parametrize(
    "body",
    [
        licenses(MAX_DECLARATIONS),
        "".join(f"<a rel=license href=/{n}>licence</a>" for n in range(MAX_LICENSE_LINKS + 1)),
        licenses(1) * (MAX_DECLARATIONS + 1),
    ],
)
def test_repeated_or_permissive_declarations_do_not_count_toward_the_limit(body: str) -> None:
    assert refusal(body, "search") is None
