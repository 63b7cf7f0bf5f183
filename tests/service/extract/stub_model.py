"""A language model on loopback, in the shape of OpenAI's chat completions, that does as it is told.

Unless a turn says otherwise it reads `name: value` lines out of the page that it is shown, and
answers with the fields of the JSON Schema that stands in the question: a model that reads, and
invents nothing.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from tests.site.server import Site

KEY: Final = "canary-key-41d7"
_SCHEMA: Final = re.compile(r"^The object must fit this JSON Schema: (.*)$", re.MULTILINE)
_PAGE: Final = re.compile(r"^\[page (\w+)\]\n(.*)^\[end of page \1\]$", re.MULTILINE | re.DOTALL)
_LINE: Final = re.compile(r"^\W*(\w+):\s+(.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Question:
    """One request: what was asked of which model, in which format, and with which headers."""

    model: str
    messages: list[dict[str, str]]
    format: str
    schema: Any
    headers: Any
    body: dict[str, Any]

    @property
    def last_message(self) -> str:
        """The content of the last message."""
        return self.messages[-1]["content"]

    @property
    def page(self) -> str:
        """The piece of the page that is shown."""
        match = _PAGE.search(self.messages[1]["content"])
        assert match is not None, self.messages[1]["content"]
        return match[2]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the schema in the question; empty without one."""
        match = _SCHEMA.search(self.messages[1]["content"])
        return {} if match is None else dict(json.loads(match[1])["properties"])


Turn = Callable[[Question], web.StreamResponse | Awaitable[web.StreamResponse]]


def reply_with(
    text: str, *, finish_reason: str = "stop", usage: bool = True, **message: Any
) -> web.Response:
    """A good reply with this text."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": finish_reason,
    }
    reply: dict[str, Any] = {"id": "c1", "object": "chat.completion", "choices": [choice]}
    if usage:
        reply["usage"] = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    return web.json_response(reply)


def always_fail(status: int, code: str = "", **headers: str) -> Turn:
    """A turn that answers with an error, and with the key in it as some providers do."""
    error = {"error": {"message": f"no: {KEY}", "type": "some_error", "code": code or None}}
    header_names = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda _question: web.json_response(error, status=status, headers=header_names)


def always_reply(text: str, **options: Any) -> Turn:
    """A turn that says this, whatever the question."""
    return lambda _question: reply_with(text, **options)


def reply_from_page(question: Question) -> web.Response:
    """Answer as a model would that only reads."""
    return reply_with(json.dumps(values(question)))


def values(question: Question) -> dict[str, Any]:
    page_values = dict(reversed(_LINE.findall(question.page)))
    return {name: _typed(page_values.get(name), schema) for name, schema in question.fields.items()}


def _typed(text: str | None, schema: dict[str, Any]) -> Any:
    kind = schema.get("type", ["string"])[0]
    if text is None:
        return [] if kind == "array" else None
    if kind == "array":
        return [each.strip() for each in text.split(",")]
    return float(text) if kind in {"number", "integer"} else text


@dataclass(slots=True)
class StubModel:
    """The server: `turns` are taken one by one, then `usual` for ever."""

    site: Site
    path: str = "/v1"
    supported_formats: tuple[str, ...] = ("json_schema", "json_object", "prompt")
    turns: deque[Turn] = field(default_factory=deque)
    usual: Turn = reply_from_page
    requests: list[Question] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site.under(f"{self.path}/chat/completions", self._handle)

    @property
    def url(self) -> str:
        return self.site.at(self.path)

    def then(self, *turns: Turn) -> None:
        """Take these turns next."""
        self.turns.extend(turns)

    @property
    def formats(self) -> list[str]:
        """How each question was asked, in order."""
        return [each.format for each in self.requests]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        # Before anything is waited for, the last request of this path is this one.
        body = json.loads(self.site.hits(request.raw_path)[-1].body)
        form = body.get("response_format") or {"type": "prompt"}
        schema = form.get("json_schema", {}).get("schema")
        question = Question(
            body["model"], body["messages"], form["type"], schema, dict(request.headers), body
        )
        self.requests.append(question)
        if question.format not in self.supported_formats:
            return await _run_turn(always_fail(400, "invalid_request_error"), question)
        return await _run_turn(self.turns.popleft() if self.turns else self.usual, question)


async def _run_turn(turn: Turn, question: Question) -> web.StreamResponse:
    answer = turn(question)
    return answer if isinstance(answer, web.StreamResponse) else await answer
