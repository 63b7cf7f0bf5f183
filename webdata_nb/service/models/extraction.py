"""Creates the extractor of a request, which adds extracted data to each scraped page."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import msgspec

from webdata_nb.contract.local import ModelAccess, SessionSettings
from webdata_nb.contract.requests import Extract
from webdata_nb.page.content.page_source import SOURCE, ConversionOptions
from webdata_nb.page.errors import BadInput, ExtractError, PageError
from webdata_nb.page.extract.evidence.judgement import ValueEvidence
from webdata_nb.page.extract.evidence.messages import evidence_metadata
from webdata_nb.page.extract.schema import FieldSchema, Loc, read_schema
from webdata_nb.page.extract.structured import EXTRACTION, Extraction
from webdata_nb.service.models.llm import EMPTY_EXTRACTION, ModelPageInput, ModelPageReader
from webdata_nb.service.models.model_endpoint import ModelClient, ModelQueues
from webdata_nb.service.models.model_providers import STRUCTURED, Model, select_model, setup_hint
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.web.fetch import Fetcher

EvidenceOf = Callable[[str, str, Mapping[str, Any]], Awaitable[list[ValueEvidence]]]
"""Finds the evidence of data in the source of a page with a URL; raises `PageError`."""
MARKDOWN: Final = "markdown"
NO_MODEL: Final = "no language model is set up here: read from what the page declares"


class Extractor(Protocol):
    """Extracts data from the pages of one request."""

    def scrape_options(self, options: ConversionOptions) -> ConversionOptions:
        """Return the options with everything that the extraction needs of a page."""

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], requested: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return the requested formats, `extract`, and the metadata with the sources of values.

        If the extraction fails, `extract` is null and `error` contains the reason.
        """


def model_access(operator: SessionSettings, session: Mapping[str, Any]) -> dict[str, ModelAccess]:
    """Return the operator's language models, replaced by those of a job's session."""
    settings = SessionSettings.model_validate({"llm": session.get("llm", {})})
    return {**operator.llm, **settings.llm}


@dataclass(frozen=True, slots=True)
class ExtractorFactory:
    """Creates extractors that share the queues of model providers."""

    queues: ModelQueues = field(default_factory=ModelQueues)

    def check(
        self, request: Extract | None, access: Mapping[str, ModelAccess], *, loc: Loc
    ) -> None:
        """Check a request before its job starts.

        Raises
        ------
        BadInput
            The schema is missing or not supported, or the provider is not set up.
        """
        if request is not None:
            _model_and_schema(request, access, loc)

    def create(
        self,
        request: Extract | None,
        access: Mapping[str, ModelAccess],
        fetcher_of: Callable[[str], Fetcher],
        evidence_of: EvidenceOf,
    ) -> Extractor | None:
        """Return the extractor of a request; None without a request.

        `fetcher_of` returns the fetcher for the URL of a model, and `evidence_of` finds the
        evidence of values in a page.

        Raises
        ------
        BadInput
            As in `check`.
        """
        if request is None:
            return None
        model, field_schema = _model_and_schema(request, access, ("extract",))
        schema = None if field_schema is None else json.dumps(request.schema_)
        if model is not None:
            client = ModelClient(model, fetcher_of(model.url), self.queues)
            reader = ModelPageReader(
                request.prompt, field_schema, model, client, self.queues.limits
            )
            return _ModelExtractor(reader, evidence_of, schema)
        note = NO_MODEL if request.provider is None else None
        return _StructuredExtractor(schema, evidence_of, note=note)


def _model_and_schema(
    request: Extract, access: Mapping[str, ModelAccess], loc: Loc
) -> tuple[Model | None, FieldSchema | None]:
    model = select_model(access, request, loc=loc)
    if model is not None and request.schema_ is None:
        return model, None
    if model is None and request.schema_ is None and request.provider is None:
        raise BadInput(f"a prompt needs a language model: {setup_hint(access)}", loc=loc)
    return model, read_schema(request.schema_, loc=(*loc, "schema"))


def _add_formats(options: ConversionOptions, schema: str | None, *names: str) -> ConversionOptions:
    formats = tuple(dict.fromkeys((*options.formats, *names)))
    return replace(options, formats=formats, schema=schema, encoded=False)


@dataclass(frozen=True, slots=True)
class _StructuredExtractor:
    """Fills a schema from declared data; `note` says why, if the request did not choose this."""

    schema: str | None
    evidence_of: EvidenceOf
    note: str | None = None

    def scrape_options(self, options: ConversionOptions) -> ConversionOptions:
        return _add_formats(options, self.schema, EXTRACTION, SOURCE)

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], requested: tuple[str, ...]
    ) -> dict[str, Any]:
        extraction = msgspec.convert(formats[EXTRACTION], Extraction)
        error = ExtractError("failed", extraction.error) if extraction.error else None
        summary = {
            "provider": STRUCTURED,
            "provenance": extraction.provenance,
            "missing": list(extraction.missing),
            **({"conflicts": extraction.conflicts} if extraction.conflicts else {}),
            **_note(*([self.note] if self.note else []), *extraction.notes),
        }
        data = None if error is not None else extraction.data
        summary |= await _evidence(self.evidence_of, formats, metadata, data)
        return _item(formats, requested, metadata, summary, data=data, error=error)


@dataclass(frozen=True, slots=True)
class _ModelExtractor:
    """Extracts with a language model; declared data has precedence where a schema allows it."""

    reader: ModelPageReader
    evidence_of: EvidenceOf
    schema: str | None = None

    def scrape_options(self, options: ConversionOptions) -> ConversionOptions:
        names = (MARKDOWN, SOURCE) if self.schema is None else (MARKDOWN, EXTRACTION, SOURCE)
        return _add_formats(options, self.schema, *names)

    async def apply(
        self, formats: Mapping[str, Any], metadata: Mapping[str, Any], requested: tuple[str, ...]
    ) -> dict[str, Any]:
        declared = EMPTY_EXTRACTION
        if EXTRACTION in formats:  # empty if it failed: the model can read the page without it
            declared = msgspec.convert(formats[EXTRACTION], Extraction)
        page = ModelPageInput(
            text=formats.get(MARKDOWN) or "",
            url=str(metadata.get("final_url") or ""),
            title=str(metadata.get("title") or ""),
            declared=declared,
            language=str(metadata.get("language") or ""),
        )
        with waiting_for("the extraction from a page", self.reader.limits.page_timeout_s):
            result = await self.reader.read(page)
        evidence = await _evidence(self.evidence_of, formats, metadata, result.data)
        return _item(
            formats,
            requested,
            metadata,
            {**result.to_metadata(), **_note(*declared.notes), **evidence},
            data=result.data,
            error=result.error,
        )


async def _evidence(
    evidence_of: EvidenceOf,
    formats: Mapping[str, Any],
    metadata: Mapping[str, Any],
    data: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the evidence of a page's values for its metadata.

    It is left out where a page worker fails at it: the values are kept.
    """
    page = formats.get(SOURCE)
    if not data or not isinstance(page, str):
        return {}
    with suppress(PageError):
        found = await evidence_of(page, str(metadata.get("final_url") or ""), data)
        return {"evidence": evidence_metadata(page, found)}
    return {}


def _note(*notes: str) -> dict[str, str]:
    """Return the notes as one entry of an item's metadata; nothing without notes."""
    return {"note": "; ".join(notes)} if notes else {}


def _item(
    formats: Mapping[str, Any],
    requested: tuple[str, ...],
    metadata: Mapping[str, Any],
    summary: Mapping[str, Any],
    *,
    data: Mapping[str, Any] | None,
    error: ExtractError | None,
) -> dict[str, Any]:
    item: dict[str, Any] = {name: value for name, value in formats.items() if name in requested}
    extract = dict(summary)
    if error is not None:
        item["error"] = f"extraction failed ({error.kind}): {error}"
        extract["error"] = {"kind": error.kind, "message": str(error)}
    return {**item, "extract": data, "metadata": {**metadata, "extract": extract}}
