"""Extraction with a language model: what a page declares first, the rest asked, all of it checked.

A schema alone is filled from what the page declares of its subject (JSON-LD, microdata, RDFa,
tables), and the model is asked for the fields that are left. What meta tags say is of the page
rather than of its subject: it stands in where the model finds nothing. With a prompt the model is
asked for every field, since only it can tell what the words mean. It is always told what is
declared.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Final

from webdata_nb.service.errors import ExtractError
from webdata_nb.service.extract.chat import ChatMessage, ChatReply, ResponseFormat
from webdata_nb.service.extract.chunking import split, tokens
from webdata_nb.service.extract.merging import MergedAnswers, merge_answers, overlay
from webdata_nb.service.extract.model_answers import (
    found,
    missing_pointers,
    schema_violations,
    value_pointers,
)
from webdata_nb.service.extract.model_endpoint import ModelClient, ModelLimits
from webdata_nb.service.extract.model_providers import Model
from webdata_nb.service.extract.prompts import (
    ExtractionTask,
    can_be_strict,
    correction_messages,
    to_json_schema,
)
from webdata_nb.service.extract.schema import Shape
from webdata_nb.service.extract.structured import Extraction
from webdata_nb.service.extract.validation import escaped

MODEL: Final = "model"
# Of what a model takes, the part left for its answer; and the least that is worth a question.
_ANSWER_SHARE: Final = 4
_MIN_CHUNK_TOKENS: Final = 200
_MAX_ERRORS_LISTED: Final = 5
_OF_THE_SUBJECT: Final = ("json_ld:", "microdata:", "rdfa:", "table:")


EMPTY_EXTRACTION: Final = Extraction({}, {}, ())


@dataclass(slots=True)
class ModelUsage:
    """What the questions about one page came to; `estimated` where an endpoint did not count."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    format: ResponseFormat | None = None

    def add(
        self, messages: list[ChatMessage], answer: ChatReply, response_format: ResponseFormat
    ) -> None:
        """Count one answer."""
        asked, said = answer.prompt_tokens, answer.completion_tokens
        self.calls, self.format = self.calls + 1, response_format
        self.estimated |= asked is None or said is None
        self.prompt_tokens += (
            sum(tokens(each["content"]) for each in messages) if asked is None else asked
        )
        self.completion_tokens += tokens(answer.text) if said is None else said

    def told(self) -> dict[str, Any]:
        """Return the use of tokens as an item's metadata tells it."""
        return {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "estimated": self.estimated,
        }


@dataclass(frozen=True, slots=True)
class ModelPageInput:
    """What a model is shown of a page, and what the page declares."""

    text: str
    url: str
    title: str
    declared: Extraction


@dataclass(slots=True)
class ModelPageResult:
    """One page being read by one model: its values or its error, and the account of both."""

    model: Model
    tally: ModelUsage = field(default_factory=ModelUsage)
    data: dict[str, Any] | None = None
    error: ExtractError | None = None
    provenance: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    conflicts: dict[str, list[Any]] = field(default_factory=dict)
    pieces: int = 0
    unread_tokens: int = 0

    def told(self) -> dict[str, Any]:
        """Return what the item's metadata says of the extraction."""
        told: dict[str, Any] = {
            "provider": self.model.provider,
            "model": self.model.name,
            "provenance": self.provenance,
            "missing": self.missing,
            "usage": self.tally.told(),
            "format": self.tally.format,
            "pieces": self.pieces,
        }
        if self.conflicts:
            told["conflicts"] = self.conflicts
        if self.unread_tokens:
            told["unread_tokens"] = self.unread_tokens
        return told


@dataclass(frozen=True, slots=True)
class ModelPageReader:
    """Reads one page after another for what is wanted: words, fields, or both."""

    prompt: str | None
    shape: Shape | None
    model: Model
    client: ModelClient
    limits: ModelLimits

    async def read(self, page: ModelPageInput) -> ModelPageResult:
        """Extract from one page; a failure is in the result, not raised."""
        reading = ModelPageResult(self.model)
        try:
            async with asyncio.timeout(self.limits.page_timeout_s) as deadline:
                await self._fill(reading, page)
        except ExtractError as error:
            reading.error = error
        except TimeoutError:
            if not deadline.expired():
                raise
            reading.error = ExtractError(
                "timeout", f"not done in {self.limits.page_timeout_s:g} seconds"
            )
        if reading.error is not None:
            reading.data, reading.provenance, reading.missing = None, {}, []
        return reading

    async def _fill(self, reading: ModelPageResult, page: ModelPageInput) -> None:
        wanted, sure = self.shape, EMPTY_EXTRACTION
        if wanted is not None and self.prompt is None:
            sure = _sure(page.declared)
            wanted = _left(wanted, sure)
        task = ExtractionTask(
            self.prompt, wanted, page.url, page.title, _told(page.declared, wanted)
        )
        answers: list[dict[str, Any]] = []
        if wanted is None or wanted.properties:
            for number, messages in enumerate(self._conversations(reading, task, page.text), 1):
                answers.append(await self._one(reading, messages, wanted))
                reading.pieces = number
        if self.shape is None and not answers:
            raise ExtractError("empty", "the page has no text to extract from")
        unsure = page.declared if self.prompt is None else EMPTY_EXTRACTION
        _account(reading, (sure, merge_answers(answers, wanted), unsure), self.shape)

    def _conversations(
        self, reading: ModelPageResult, task: ExtractionTask, text: str
    ) -> list[list[ChatMessage]]:
        """Return a conversation for each piece of the page that is read."""
        said = sum(tokens(each["content"]) for each in task.messages("", 1, 2))
        context = self.model.context
        room = context - context // _ANSWER_SHARE - said
        if room < _MIN_CHUNK_TOKENS:
            raise ExtractError(
                "too_long", f"prompt and schema leave no room for a page in {context} tokens"
            )
        whole = split(text, room) if text.strip() else [""] * bool(task.declared)
        pieces = whole[: self.limits.max_chunks]
        reading.unread_tokens = sum(map(tokens, whole[self.limits.max_chunks :]))
        return [task.messages(each, at, len(pieces)) for at, each in enumerate(pieces, 1)]

    async def _one(
        self, reading: ModelPageResult, messages: list[ChatMessage], shape: Shape | None
    ) -> dict[str, Any]:
        """Ask about one piece, and once more where the answer does not fit."""
        schema = None
        if shape is not None and can_be_strict(shape):
            schema = to_json_schema(shape, strict=True)
        wrong: tuple[str, ...] = ()
        for _ in range(2):
            answer, response_format = await self.client.ask(messages, schema)
            reading.tally.add(messages, answer, response_format)
            if answer.declined:
                raise ExtractError("refused", "the model declined to answer")
            if answer.cut:
                raise ExtractError("cut_off", "the answer was cut off: ask for less at a time")
            value, wrong = found(answer.text, shape)
            if value is not None:
                return value
            messages = correction_messages(messages, answer.text, wrong)
        raise ExtractError("invalid", f"the answer does not fit, twice: {_listed(wrong)}")


def _sure(declared: Extraction) -> Extraction:
    """Return what is declared of the page's subject, without what is said of the page."""
    sources: dict[str, bool] = {}
    for at, origin in declared.provenance.items():
        name = at.split("/", 2)[1]
        sources[name] = sources.get(name, True) and origin.startswith(_OF_THE_SUBJECT)
    data = {name: value for name, value in declared.data.items() if sources.get(escaped(name))}
    return Extraction(
        data,
        {at: each for at, each in declared.provenance.items() if sources[at.split("/", 2)[1]]},
        declared.missing,
    )


def _left(shape: Shape, sure: Extraction) -> Shape:
    """Return the fields that are not declared, or not wholly; lists stay as declared."""

    def open_(name: str, inner: Shape) -> bool:
        below = f"/{escaped(name)}/"
        partly = inner.kind == "object" and any(each.startswith(below) for each in sure.missing)
        return sure.data.get(name) is None or partly

    left = {name: inner for name, inner in shape.properties.items() if open_(name, inner)}
    return replace(shape, properties=left, required=shape.required & set(left))


def _told(declared: Extraction, wanted: Shape | None) -> dict[str, Any]:
    """Return what the model is told of the fields that it is asked for."""
    names = () if wanted is None else wanted.properties
    return {n: v for n, v in declared.data.items() if n in names and v is not None}


def _account(
    reading: ModelPageResult,
    told: tuple[Extraction, MergedAnswers, Extraction],
    shape: Shape | None,
) -> None:
    """Put declared and read values together, each with its source, and check the whole."""
    sure, read, unsure = told
    reading.conflicts = read.conflicts
    if shape is None:
        reading.data = read.value
        reading.provenance = dict.fromkeys(value_pointers(read.value), MODEL)
        return
    whole = overlay(overlay(sure.data, read.value), unsure.data)
    reading.data = {name: whole.get(name) for name in shape.properties}
    reading.missing = list(missing_pointers(reading.data, shape))
    models = dict.fromkeys(value_pointers(read.value), MODEL)
    there = set(value_pointers(reading.data))
    sources = {**unsure.provenance, **models, **sure.provenance}
    reading.provenance = {
        at: origin for at, origin in sources.items() if at in there or at in sure.provenance
    }
    if wrong := schema_violations(reading.data, shape):
        raise ExtractError("invalid", f"the values do not fit: {_listed(wrong)}")


def _listed(wrong: tuple[str, ...]) -> str:
    shown = "; ".join(wrong[:_MAX_ERRORS_LISTED])
    return shown if len(wrong) <= _MAX_ERRORS_LISTED else f"{shown}; and more"
