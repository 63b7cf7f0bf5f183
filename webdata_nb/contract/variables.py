"""Parses the environment variables of providers, for the toolkit and the service."""

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
    """A parsed variable; `llm` is true for language models.

    `part` is `url` or `key`, for a language model also `model`, `models`, `context` or `timeout`.
    """

    llm: bool
    provider: str
    part: str


def provider_variable(name: str) -> Variable | None:
    """Parse a name such as `WEBDATA_<NAME>_URL`; None for other variables."""
    if model := _MODEL.fullmatch(name):
        return Variable(llm=True, provider=model[1].lower(), part=model[2].lower())
    match = _PROVIDER.fullmatch(name)
    if match is None or _RESERVED.fullmatch(match[2]):
        return None
    return Variable(match[1] is not None, match[2].lower(), match[3].lower())


def provider_value(name: str, variable: Variable, text: str) -> str | int | float | tuple[str, ...]:
    """Convert the text of a variable. Raises `ValueError` for an invalid number."""
    if variable.part == "models":
        return tuple(filter(None, (model.strip() for model in text.split(","))))
    try:
        if variable.part == "context":
            return int(text)
        return float(text) if variable.part == "timeout" else text
    except ValueError:
        unit = "a whole number of tokens" if variable.part == "context" else "a number of seconds"
        raise ValueError(f"{name} must be {unit}; it is {text!r}") from None


def split_names(text: str) -> tuple[str, ...]:
    """Return the provider names of a comma-separated list."""
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def engine_providers(environ: Mapping[str, str]) -> dict[Engine, tuple[str, ...]]:
    """Return the provider lists of `WEBDATA_ENGINE_ONE`, `_TWO` and `_THREE`."""
    lists = {engine: environ.get(f"WEBDATA_{engine.upper()}", "") for engine in ENGINES}
    return {engine: split_names(text) for engine, text in lists.items() if text.strip()}
