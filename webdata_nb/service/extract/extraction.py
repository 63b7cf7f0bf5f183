"""Extraction as jobs ask for it: checked at the start, then applied to each scraped page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from webdata_nb.contract.local import ModelAccess, SessionSettings
from webdata_nb.contract.requests import Extract
from webdata_nb.service.extract.llm import NOTHING, Page, Reader
from webdata_nb.service.extract.model_endpoint import Endpoint, Lines
from webdata_nb.service.extract.model_providers import STRUCTURED, Model, choose
from webdata_nb.service.extract.schema import Loc, Shape, read_schema
from webdata_nb.service.extract.structured import Extraction, extract_structured
from webdata_nb.service.web.fetch import Fetcher

SOURCE: Final = "structured_data"
# What the extraction reads, and so what a page must be scraped for. Tables are no format that a
# request may ask for.
TABLES: Final = "tables"
TEXT: Final = "markdown"
# What a page may wait for: every call to a model has a deadline, as has its place in the line.
EXTRACT_S: Final = 3600.0
NO_MODEL: Final = "no language model is set up here: read from what the page declares"


class Extractor(Protocol):
    """Carries out one request's `extract`, page after page."""

    def formats(self, asked: tuple[str, ...]) -> tuple[str, ...]:
        """Return the formats to scrape: those asked for, and what the extraction reads."""

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], asked: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return the formats asked for, `extract`, and metadata that says where it is from.

        Where it failed, `extract` is null and `error` says why; the formats are there all the same.
        """


def model_access(operator: SessionSettings, session: Mapping[str, Any]) -> dict[str, ModelAccess]:
    """Lay a session's language models, as a job keeps them, over the operator's, name by name."""
    told = SessionSettings.model_validate({"llm": session.get("llm", {})})
    return {**operator.llm, **told.llm}


@dataclass(frozen=True, slots=True)
class Extractions:
    """What extraction shares in a process: the queues at providers, and what a page may cost."""

    lines: Lines = field(default_factory=Lines)

    def check(self, wanted: Extract | None, access: Mapping[str, ModelAccess], *, loc: Loc) -> None:
        """Refuse what cannot be carried out.

        Raises
        ------
        BadInput
            The schema is missing or not one that can be filled, or the provider is not set up.
        """
        if wanted is not None:
            _parts(wanted, access, loc)

    def extractor(
        self,
        wanted: Extract | None,
        access: Mapping[str, ModelAccess],
        towards: Callable[[str], Fetcher],
    ) -> Extractor | None:
        """Return what carries out a request's `extract`, or None without one.

        `towards` gives the way to a model's address.

        Raises
        ------
        BadInput
            As `check` does.
        """
        if wanted is None:
            return None
        model, shape = _parts(wanted, access, ("extract",))
        if model is not None:
            endpoint = Endpoint(model, towards(model.url), self.lines)
            return ByModel(Reader(wanted.prompt, shape, model, endpoint, self.lines.bounds))
        return ByDeclaration(
            read_schema(wanted.schema_), why=NO_MODEL if wanted.provider is None else None
        )


def _parts(
    wanted: Extract, access: Mapping[str, ModelAccess], loc: Loc
) -> tuple[Model | None, Shape | None]:
    """Return the model and the fields that a request means; a model alone can do without fields."""
    model = choose(access, wanted, loc=loc)
    free = model is not None and wanted.schema_ is None
    return model, None if free else read_schema(wanted.schema_, loc=(*loc, "schema"))


def _with(asked: tuple[str, ...], *needed: str) -> tuple[str, ...]:
    return (*asked, *(name for name in needed if name not in asked))


def _kept(formats: Mapping[str, Any], asked: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in formats.items() if name in asked}


async def _declared(
    formats: Mapping[str, Any], metadata: Mapping[str, Any], shape: Shape
) -> Extraction:
    # A page may declare a great deal: not on the event loop.
    return await asyncio.to_thread(
        extract_structured,
        formats.get(SOURCE) or {},
        schema=shape,
        tables=formats.get(TABLES) or (),
        metadata=metadata,
    )


@dataclass(frozen=True, slots=True)
class ByDeclaration:
    """Fills one schema by what each page declares about itself; `why` it does so unasked."""

    shape: Shape
    why: str | None = None

    def formats(self, asked: tuple[str, ...]) -> tuple[str, ...]:
        """See `Extractor.formats`."""
        return _with(asked, SOURCE, TABLES)

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], asked: tuple[str, ...]
    ) -> dict[str, Any]:
        """See `Extractor.apply`; it never fails."""
        found = await _declared(formats, metadata, self.shape)
        told = {
            "provider": STRUCTURED,
            "provenance": found.provenance,
            "missing": list(found.missing),
            **({"note": self.why} if self.why else {}),
        }
        metadata = {**metadata, "extract": told}
        return {**_kept(formats, asked), "extract": found.data, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class ByModel:
    """Extracts with a language model what pages do not declare."""

    reader: Reader

    def formats(self, asked: tuple[str, ...]) -> tuple[str, ...]:
        """See `Extractor.formats`."""
        return _with(asked, TEXT, SOURCE, TABLES)

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], asked: tuple[str, ...]
    ) -> dict[str, Any]:
        """See `Extractor.apply`."""
        declared = NOTHING
        if self.reader.shape is not None:
            declared = await _declared(formats, metadata, self.reader.shape)
        page = Page(
            text=formats.get(TEXT) or "",
            url=str(metadata.get("final_url") or ""),
            title=str(metadata.get("title") or ""),
            declared=declared,
        )
        reading = await self.reader.read(page)
        error = reading.error
        failed = {} if error is None else {"error": f"extraction failed ({error.kind}): {error}"}
        return {
            **_kept(formats, asked),
            **failed,
            "extract": reading.data,
            "metadata": {**metadata, "extract": reading.told()},
        }
