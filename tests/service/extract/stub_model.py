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
    def said(self) -> str:
        """The last thing said."""
        return self.messages[-1]["content"]

    @property
    def page(self) -> str:
        """The piece of the page that is shown."""
        found = _PAGE.search(self.messages[1]["content"])
        assert found is not None, self.messages[1]["content"]
        return found[2]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the schema in the question; empty without one."""
        found = _SCHEMA.search(self.messages[1]["content"])
        return {} if found is None else dict(json.loads(found[1])["properties"])


Turn = Callable[[Question], web.StreamResponse | Awaitable[web.StreamResponse]]


def said(text: str, *, ended: str = "stop", usage: bool = True, **message: Any) -> web.Response:
    """A good reply with this text."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": ended,
    }
    reply: dict[str, Any] = {"id": "c1", "object": "chat.completion", "choices": [choice]}
    if usage:
        reply["usage"] = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    return web.json_response(reply)


def fails(status: int, code: str = "", **headers: str) -> Turn:
    """A turn that answers with an error, and with the key in it as some providers do."""
    error = {"error": {"message": f"no: {KEY}", "type": "some_error", "code": code or None}}
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda _asked: web.json_response(error, status=status, headers=named)


def says(text: str, **options: Any) -> Turn:
    """A turn that says this, whatever the question."""
    return lambda _asked: said(text, **options)


def reads(asked: Question) -> web.Response:
    """Answer as a model would that only reads."""
    return said(json.dumps(values(asked)))


def values(asked: Question) -> dict[str, Any]:
    there = dict(reversed(_LINE.findall(asked.page)))
    return {name: _typed(there.get(name), schema) for name, schema in asked.fields.items()}


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
    understood: tuple[str, ...] = ("json_schema", "json_object", "prompt")
    turns: deque[Turn] = field(default_factory=deque)
    usual: Turn = reads
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
        asked = Question(
            body["model"], body["messages"], form["type"], schema, dict(request.headers), body
        )
        self.requests.append(asked)
        if asked.format not in self.understood:
            return await _taken(fails(400, "invalid_request_error"), asked)
        return await _taken(self.turns.popleft() if self.turns else self.usual, asked)


async def _taken(turn: Turn, asked: Question) -> web.StreamResponse:
    answer = turn(asked)
    return answer if isinstance(answer, web.StreamResponse) else await answer
