"""Extraction as jobs ask for it: checked at the start, then applied to each scraped page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from webdata_nb.contract.local import ModelAccess, SessionSettings
from webdata_nb.contract.requests import Extract
from webdata_nb.service.content.source import ScrapeOptions
from webdata_nb.service.errors import ExtractError
from webdata_nb.service.extract.llm import EMPTY_EXTRACTION, ModelPageInput, ModelPageReader
from webdata_nb.service.extract.model_endpoint import ModelClient, ModelQueues
from webdata_nb.service.extract.model_providers import STRUCTURED, Model, choose
from webdata_nb.service.extract.schema import Loc, Shape, read_schema
from webdata_nb.service.extract.structured import EXTRACTION, Extraction
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.web.fetch import Fetcher

TEXT: Final = "markdown"
NO_MODEL: Final = "no language model is set up here: read from what the page declares"


class Extractor(Protocol):
    """Carries out one request's `extract`, page after page."""

    def scrape_options(self, options: ScrapeOptions) -> ScrapeOptions:
        """Return the options with what the extraction reads of the page beside the formats."""

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
class ExtractorFactory:
    """What extraction shares in a process: the queues at providers, and what a page may cost."""

    queues: ModelQueues = field(default_factory=ModelQueues)

    def check(self, wanted: Extract | None, access: Mapping[str, ModelAccess], *, loc: Loc) -> None:
        """Refuse what cannot be carried out.

        Raises
        ------
        BadInput
            The schema is missing or not one that can be filled, or the provider is not set up.
        """
        if wanted is not None:
            _parts(wanted, access, loc)

    def create(
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
        schema = None if shape is None else json.dumps(wanted.schema_)
        if model is not None:
            client = ModelClient(model, towards(model.url), self.queues)
            reader = ModelPageReader(wanted.prompt, shape, model, client, self.queues.limits)
            return ModelExtractor(reader, schema)
        return StructuredExtractor(schema, why=NO_MODEL if wanted.provider is None else None)


def _parts(
    wanted: Extract, access: Mapping[str, ModelAccess], loc: Loc
) -> tuple[Model | None, Shape | None]:
    """Return the model and the fields that a request means; a model alone can do without fields."""
    model = choose(access, wanted, loc=loc)
    free = model is not None and wanted.schema_ is None
    return model, None if free else read_schema(wanted.schema_, loc=(*loc, "schema"))


def _with(options: ScrapeOptions, schema: str | None, *needed: str) -> ScrapeOptions:
    formats = tuple(dict.fromkeys((*options.formats, *needed)))
    return replace(options, formats=formats, schema=schema, encoded=False)


@dataclass(frozen=True, slots=True)
class StructuredExtractor:
    """Fills one schema by what each page declares about itself; `why` it does so unasked."""

    schema: str | None
    why: str | None = None

    def scrape_options(self, options: ScrapeOptions) -> ScrapeOptions:
        """See `Extractor.scrape_options`."""
        return _with(options, self.schema, EXTRACTION)

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], asked: tuple[str, ...]
    ) -> dict[str, Any]:
        """See `Extractor.apply`."""
        data, error = None, None
        found = EMPTY_EXTRACTION
        try:
            found = Extraction.from_json(formats[EXTRACTION])
            data = found.data
        except ExtractError as failure:
            error = failure
        told = {
            "provider": STRUCTURED,
            "provenance": found.provenance,
            "missing": list(found.missing),
            **({"note": self.why} if self.why else {}),
        }
        return _content(formats, asked, metadata, told, data=data, error=error)


@dataclass(frozen=True, slots=True)
class ModelExtractor:
    """Extracts with a language model what pages do not declare."""

    reader: ModelPageReader
    schema: str | None = None

    def scrape_options(self, options: ScrapeOptions) -> ScrapeOptions:
        """See `Extractor.scrape_options`."""
        needed = (TEXT,) if self.schema is None else (TEXT, EXTRACTION)
        return _with(options, self.schema, *needed)

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], asked: tuple[str, ...]
    ) -> dict[str, Any]:
        """See `Extractor.apply`."""
        declared = EMPTY_EXTRACTION
        if EXTRACTION in formats:
            with suppress(ExtractError):  # the model reads the page all the same
                declared = Extraction.from_json(formats[EXTRACTION])
        page = ModelPageInput(
            text=formats.get(TEXT) or "",
            url=str(metadata.get("final_url") or ""),
            title=str(metadata.get("title") or ""),
            declared=declared,
        )
        limit_s = self.reader.limits.page_timeout_s
        with waiting_for("the extraction from a page", limit_s):
            reading = await self.reader.read(page)
        told = reading.told()
        return _content(formats, asked, metadata, told, data=reading.data, error=reading.error)


def _content(
    formats: Mapping[str, Any],
    asked: tuple[str, ...],
    metadata: Mapping[str, Any],
    told: Mapping[str, Any],
    *,
    data: Mapping[str, Any] | None,
    error: ExtractError | None,
) -> dict[str, Any]:
    failed, why = {}, {}
    if error is not None:
        failed = {"error": f"extraction failed ({error.kind}): {error}"}
        why = {"error": {"kind": error.kind, "message": str(error)}}
    return {
        **{name: value for name, value in formats.items() if name in asked},
        **failed,
        "extract": data,
        "metadata": {**metadata, "extract": {**told, **why}},
    }
