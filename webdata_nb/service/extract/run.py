"""Extraction as jobs ask for it: checked at the start, then applied to each scraped page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.contract.requests import Extract
from webdata_nb.service.errors import NotYetBuilt
from webdata_nb.service.extract.schema import Loc, Shape, read_schema
from webdata_nb.service.extract.structured import extract_structured

STRUCTURED: Final = "structured"
SOURCE: Final = "structured_data"
# What the extraction reads, and so what a page must be scraped for. Tables are no format that a
# request may ask for.
TABLES: Final = "tables"


def extractor(wanted: Extract | None, *, loc: Loc) -> Extractor | None:
    """Return what carries out a request's `extract`, or None without one.

    Raises
    ------
    BadInput
        The schema is missing or not one that can be filled.
    NotYetBuilt
        Another provider than ``"structured"``, or a model, was asked for.
    """
    if wanted is None:
        return None
    if wanted.provider not in {None, STRUCTURED}:
        raise NotYetBuilt(f"extract.provider {wanted.provider} is not available in this version")
    if wanted.model is not None:
        raise NotYetBuilt("extract.model is not available in this version")
    return Extractor(read_schema(wanted.schema_, loc=(*loc, "schema")))


@dataclass(frozen=True, slots=True)
class Extractor:
    """Fills one schema from page after page, by what each page declares about itself."""

    shape: Shape

    def formats(self, asked: tuple[str, ...]) -> tuple[str, ...]:
        """Return the formats to scrape: those asked for, and what the extraction reads."""
        return (*asked, *(name for name in (SOURCE, TABLES) if name not in asked))

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], asked: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return the formats asked for, `extract`, and metadata that says where it is from."""
        # A page may declare a great deal: not on the event loop.
        found = await asyncio.to_thread(
            extract_structured,
            formats.get(SOURCE) or {},
            schema=self.shape,
            tables=formats.get(TABLES) or (),
            metadata=metadata,
        )
        told = {
            "provider": STRUCTURED,
            "provenance": found.provenance,
            "missing": list(found.missing),
        }
        return {
            **{name: value for name, value in formats.items() if name in asked},
            "extract": found.data,
            "metadata": {**metadata, "extract": told},
        }
