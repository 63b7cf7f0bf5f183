"""The environment variables that name providers: read alike by the toolkit and by a service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webdata_nb.contract.choices import ENGINES, Engine

_PROVIDER: Final = re.compile(r"WEBDATA_(LLM_)?([A-Z][A-Z0-9_]*)_(URL|KEY)")
_MODEL: Final = re.compile(r"WEBDATA_LLM_([A-Z][A-Z0-9_]*)_(MODELS?|CONTEXT|TIMEOUT)")
_RESERVED: Final = re.compile(r"BASE|API|LLM|ENGINE(_.*)?")


@dataclass(frozen=True, slots=True)
class Variable:
    """One of a provider's variables; `llm` tells the two groups apart.

    `part` is `url` or `key`, for a language model also `model`, `models`, `context` or `timeout`.
    """

    llm: bool
    provider: str
    part: str


def provider_variable(name: str) -> Variable | None:
    """Return what `WEBDATA_<NAME>_URL` and the like stand for; None for any other variable."""
    if model := _MODEL.fullmatch(name):
        return Variable(llm=True, provider=model[1].lower(), part=model[2].lower())
    match = _PROVIDER.fullmatch(name)
    if match is None or _RESERVED.fullmatch(match[2]):
        return None
    return Variable(match[1] is not None, match[2].lower(), match[3].lower())


def provider_value(name: str, found: Variable, text: str) -> str | int | float | tuple[str, ...]:
    """Return a provider's variable as what it stands for. Raises `ValueError` for no number."""
    if found.part == "models":
        return tuple(filter(None, (each.strip() for each in text.split(","))))
    try:
        if found.part == "context":
            return int(text)
        return float(text) if found.part == "timeout" else text
    except ValueError:
        unit = "a whole number of tokens" if found.part == "context" else "a number of seconds"
        raise ValueError(f"{name} must be {unit}; it is {text!r}") from None


def split_names(text: str) -> tuple[str, ...]:
    """Return the provider names of a comma-separated list."""
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def engine_providers(given: Mapping[str, str]) -> dict[Engine, tuple[str, ...]]:
    """Return the lists that `WEBDATA_ENGINE_ONE`, `_TWO` and `_THREE` set."""
    set_ = {engine: given.get(f"WEBDATA_{engine.upper()}", "") for engine in ENGINES}
    return {engine: split_names(text) for engine, text in set_.items() if text.strip()}
