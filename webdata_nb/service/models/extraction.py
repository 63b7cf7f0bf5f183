"""Extracts data from a page with a language model, and checks everything that it returns.

With a schema alone, the fields come from what the page declares of its subject (JSON-LD, microdata,
RDFa, tables), and the model is asked for the rest. Meta tags describe the page rather than its
subject, so they are used only where the model finds nothing. With a prompt the model is asked for
every field, since only a model can interpret the prompt. Its prompt always contains the declared
data.
"""

from __future__ import annotations

import asyncio
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
from webdata_nb.page.extract.evidence.evidence import evidence_metadata
from webdata_nb.page.extract.evidence.judgement import ValueEvidence
from webdata_nb.page.extract.field_names import normalize_name
from webdata_nb.page.extract.schema import (
    FieldSchema,
    Loc,
    MergedAnswers,
    merge_answers,
    overlay,
    pointer_step,
    read_schema,
)
from webdata_nb.page.extract.structured import EXTRACTION, Extraction
from webdata_nb.page.extract.vocabulary import PAGE_TITLE_SOURCES
from webdata_nb.service.models.chat import (
    STRUCTURED,
    ChatMessage,
    ChatReply,
    Model,
    ModelClient,
    ModelLimits,
    ModelQueues,
    ResponseFormat,
    select_model,
    setup_hint,
)
from webdata_nb.service.models.model_answers import (
    is_refusal,
    missing_pointers,
    parse_answer,
    schema_violations,
    value_pointers,
)
from webdata_nb.service.models.prompts import (
    ExtractionTask,
    can_be_strict,
    correction_messages,
    estimate_tokens,
    split_chunks,
    to_json_schema,
)
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.web.fetch import Fetcher

MODEL: Final = "model"
# The part of a model's context that is left for its answer, as a divisor.
_ANSWER_SHARE: Final = 4
_MIN_CHUNK_TOKENS: Final = 200
_MAX_ERRORS_LISTED: Final = 5
_SUBJECT_SOURCES: Final = ("json_ld:", "microdata:", "rdfa:", "table:")

EMPTY_EXTRACTION: Final = Extraction({}, {}, ())


@dataclass(slots=True)
class ModelUsage:
    """Counts the calls and tokens of one page; `estimated` if an endpoint did not count tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    format: ResponseFormat | None = None

    def add(
        self, messages: list[ChatMessage], reply: ChatReply, response_format: ResponseFormat
    ) -> None:
        """Count one reply."""
        prompt_tokens, completion_tokens = reply.prompt_tokens, reply.completion_tokens
        self.calls, self.format = self.calls + 1, response_format
        self.estimated |= prompt_tokens is None or completion_tokens is None
        if prompt_tokens is None:
            prompt_tokens = sum(estimate_tokens(message["content"]) for message in messages)
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += (
            estimate_tokens(reply.text) if completion_tokens is None else completion_tokens
        )

    def to_metadata(self) -> dict[str, Any]:
        """Return the usage for an item's metadata."""
        return {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "estimated": self.estimated,
        }


@dataclass(frozen=True, slots=True)
class ModelPageInput:
    """The part of a page that a model gets, and the page's declared data."""

    text: str
    url: str
    title: str
    declared: Extraction
    language: str = ""


@dataclass(slots=True)
class ModelPageResult:
    """The extraction from one page: data or an error, with provenance and usage."""

    model: Model
    usage: ModelUsage = field(default_factory=ModelUsage)
    data: dict[str, Any] | None = None
    error: ExtractError | None = None
    provenance: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    conflicts: dict[str, list[Any]] = field(default_factory=dict)
    chunks: int = 0
    unread_tokens: int = 0

    def to_metadata(self) -> dict[str, Any]:
        """Return the summary of the extraction for the item's metadata."""
        metadata: dict[str, Any] = {
            "provider": self.model.provider,
            "model": self.model.name,
            "provenance": self.provenance,
            "missing": self.missing,
            "usage": self.usage.to_metadata(),
            "format": self.usage.format,
            "pieces": self.chunks,
        }
        if self.conflicts:
            metadata["conflicts"] = self.conflicts
        if self.unread_tokens:
            metadata["unread_tokens"] = self.unread_tokens
        return metadata


@dataclass(frozen=True, slots=True)
class ModelPageReader:
    """Extracts from pages, one after another, according to a prompt, a schema, or both."""

    prompt: str | None
    schema: FieldSchema | None
    model: Model
    client: ModelClient
    limits: ModelLimits

    async def read(self, page: ModelPageInput) -> ModelPageResult:
        """Extract from one page; the result contains the error instead of raising it."""
        result = ModelPageResult(self.model)
        timeout_s = self.limits.page_timeout_s
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                await self._extract(result, page)
        except ExtractError as error:
            result.error = error
        except TimeoutError:
            if not deadline.expired():
                raise
            result.error = ExtractError("timeout", f"not done in {timeout_s:g} seconds")
        if result.error is not None:
            result.data, result.provenance, result.missing = None, {}, []
        return result

    async def _extract(self, result: ModelPageResult, page: ModelPageInput) -> None:
        open_fields, certain = self.schema, EMPTY_EXTRACTION
        if open_fields is not None and self.prompt is None:
            certain = _select_subject_fields(page.declared)
            open_fields = _remove_complete_fields(open_fields, certain)
        names = () if open_fields is None else open_fields.properties
        hints = {n: v for n, v in page.declared.data.items() if n in names and v is not None}
        task = ExtractionTask(self.prompt, open_fields, page.url, page.title, hints)
        answers: list[dict[str, Any]] = []
        if open_fields is None or open_fields.properties:
            for number, messages in enumerate(self._conversations(result, task, page.text), 1):
                answers.append(await self._ask(result, messages, open_fields, page))
                result.chunks = number
        if self.schema is None and not answers:
            raise ExtractError("empty", "the page has no text to extract from")
        fallback = page.declared if self.prompt is None else EMPTY_EXTRACTION
        if answers:
            fallback = _without_page_title(fallback)
        answer = merge_answers(answers, open_fields)
        _combine_sources(result, certain, answer, fallback, self.schema)

    def _conversations(
        self, result: ModelPageResult, task: ExtractionTask, text: str
    ) -> list[list[ChatMessage]]:
        """Return a conversation for each chunk of the page that is read."""
        prompt_tokens = sum(
            estimate_tokens(message["content"]) for message in task.messages("", 1, 2)
        )
        context = self.model.context
        chunk_tokens = context - context // _ANSWER_SHARE - prompt_tokens
        if chunk_tokens < _MIN_CHUNK_TOKENS:
            raise ExtractError(
                "too_long", f"prompt and schema leave no room for a page in {context} tokens"
            )
        all_chunks = split_chunks(text, chunk_tokens) if text.strip() else []
        chunks = all_chunks[: self.limits.max_chunks]
        result.unread_tokens = sum(map(estimate_tokens, all_chunks[self.limits.max_chunks :]))
        return [task.messages(chunk, at, len(chunks)) for at, chunk in enumerate(chunks, 1)]

    async def _ask(
        self,
        result: ModelPageResult,
        messages: list[ChatMessage],
        schema: FieldSchema | None,
        page: ModelPageInput,
    ) -> dict[str, Any]:
        """Ask about one chunk, and once more if the answer does not match the schema."""
        json_schema = None
        if schema is not None and can_be_strict(schema):
            json_schema = to_json_schema(schema, strict=True)
        violations: tuple[str, ...] = ()
        for _ in range(2):
            reply, response_format = await self.client.ask(messages, json_schema)
            result.usage.add(messages, reply, response_format)
            if reply.refused:
                raise ExtractError("refused", "the model declined to answer")
            if reply.truncated:
                raise ExtractError("cut_off", "the answer was cut off: ask for less at a time")
            value, violations = parse_answer(
                reply.text, schema, base_url=page.url, language=page.language
            )
            if value is not None:
                return value
            if is_refusal(reply.text):
                raise ExtractError("refused", "the model declined to answer")
            messages = correction_messages(messages, reply.text, violations)
        raise ExtractError("invalid", f"the answer does not fit, twice: {_join_errors(violations)}")


def _select_subject_fields(declared: Extraction) -> Extraction:
    """Return the fields that come from data about the page's subject alone."""
    is_of_subject: dict[str, bool] = {}
    for pointer, origin in declared.provenance.items():
        name = _first_step(pointer)
        is_of_subject[name] = is_of_subject.get(name, True) and origin.startswith(_SUBJECT_SOURCES)
    return Extraction(
        {
            name: value
            for name, value in declared.data.items()
            if is_of_subject.get(pointer_step(name))
        },
        {
            pointer: origin
            for pointer, origin in declared.provenance.items()
            if is_of_subject[_first_step(pointer)]
        },
        declared.missing,
    )


def _without_page_title(declared: Extraction) -> Extraction:
    """Return an extraction without names that are only the title of the page.

    A model that has read the page and found no name knows better.
    """
    titles = {
        pointer[1:]
        for pointer, origin in declared.provenance.items()
        if origin in PAGE_TITLE_SOURCES
        and not normalize_name(pointer).endswith(("title", "headline", "heading"))
    }
    return Extraction(
        {name: None if pointer_step(name) in titles else v for name, v in declared.data.items()},
        {at: origin for at, origin in declared.provenance.items() if at[1:] not in titles},
        declared.missing,
    )


def _first_step(pointer: str) -> str:
    return pointer.split("/", 2)[1]


def _remove_complete_fields(schema: FieldSchema, extraction: Extraction) -> FieldSchema:
    """Return the fields that an extraction lacks or has in part; its lists count as complete."""

    def is_open(name: str, inner: FieldSchema) -> bool:
        prefix = f"/{pointer_step(name)}/"
        has_gaps = any(pointer.startswith(prefix) for pointer in extraction.missing)
        return extraction.data.get(name) is None or (inner.kind == "object" and has_gaps)

    properties = {name: inner for name, inner in schema.properties.items() if is_open(name, inner)}
    return replace(schema, properties=properties, required=schema.required & set(properties))


def _combine_sources(
    result: ModelPageResult,
    certain: Extraction,
    answer: MergedAnswers,
    fallback: Extraction,
    schema: FieldSchema | None,
) -> None:
    """Combine declared and extracted values with their sources, and check the result."""
    result.conflicts = answer.conflicts
    by_model = dict.fromkeys(value_pointers(answer.value), MODEL)
    if schema is None:
        result.data, result.provenance = answer.value, by_model
        return
    values = overlay(overlay(certain.data, answer.value), fallback.data)
    result.data = {name: values.get(name) for name in schema.properties}
    result.missing = list(missing_pointers(result.data, schema))
    pointers = {*value_pointers(result.data), *certain.provenance}
    sources = {**fallback.provenance, **by_model, **certain.provenance}
    result.provenance = {at: origin for at, origin in sources.items() if at in pointers}
    if violations := schema_violations(result.data, schema):
        raise ExtractError("invalid", f"the values do not fit: {_join_errors(violations)}")


def _join_errors(errors: tuple[str, ...]) -> str:
    text = "; ".join(errors[:_MAX_ERRORS_LISTED])
    return text if len(errors) <= _MAX_ERRORS_LISTED else f"{text}; and more"


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
