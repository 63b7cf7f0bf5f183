"""Which language model providers there are, and which model a request means. Pure.

Addresses and keys come from settings alone; a request names a provider and a model, no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from webdata_nb.contract.fields import http_url
from webdata_nb.contract.local import ModelAccess
from webdata_nb.contract.requests import Extract
from webdata_nb.service.errors import BadInput
from webdata_nb.service.extract.chat import ResponseFormat
from webdata_nb.service.extract.schema import Loc

STRUCTURED: Final = "structured"
# A small machine takes a minute for a long answer.
TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class ModelHost:
    """A provider whose API has the shape of OpenAI's chat completions.

    Attributes
    ----------
    url
        Its base address; empty where only the settings can know it.
    needs_key
        Whether it answers nobody without a key.
    first
        How it is first asked for JSON.
    context
        The tokens counted on where the settings do not say how many a model takes.
    """

    url: str = ""
    needs_key: bool = False
    first: ResponseFormat = "json_schema"
    context: int = 8192


HOSTS: Final[Mapping[str, ModelHost]] = {
    "openai": ModelHost("https://api.openai.com/v1", needs_key=True, context=32_000),
    # Its compatible address ignores the response format, so that nothing is gained by asking.
    "anthropic": ModelHost(
        "https://api.anthropic.com/v1", needs_key=True, first="prompt", context=32_000
    ),
    "gemini": ModelHost(
        "https://generativelanguage.googleapis.com/v1beta/openai", needs_key=True, context=32_000
    ),
    "mistral": ModelHost("https://api.mistral.ai/v1", needs_key=True, context=32_000),
    "groq": ModelHost("https://api.groq.com/openai/v1", needs_key=True),
    "openrouter": ModelHost("https://openrouter.ai/api/v1", needs_key=True),
    # What it takes by default; it drops the rest of a longer question without a word.
    "ollama": ModelHost(context=4096),
    "vllm": ModelHost(),
    "custom": ModelHost(),
}


@dataclass(frozen=True, slots=True)
class Model:
    """One model, where it is asked, and what it takes. No repr shows address or key."""

    provider: str
    name: str
    url: str = field(repr=False)
    key: str = field(repr=False)
    context: int
    timeout_s: float
    first: ResponseFormat

    @property
    def identity(self) -> str:
        """What stands for one provider with one address and key, and shows neither."""
        told = f"{self.provider}\0{self.url}\0{self.key}"
        return f"{self.provider}#{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def choose(access: Mapping[str, ModelAccess], wanted: Extract, *, loc: Loc) -> Model | None:
    """Return the model that a request means; None for extraction without one.

    Without a provider it is the first usable one, in the order of `HOSTS`, that the settings name
    a model for.

    Raises
    ------
    BadInput
        The provider is not set up, the settings do not allow the model, or nothing says which
        one is meant.
    """
    if wanted.provider == STRUCTURED:
        if wanted.model is not None:
            raise BadInput("the provider structured has no models", loc=(*loc, "model"))
        return None
    if wanted.provider is not None:
        return _named(access, wanted.provider, wanted.model, loc)
    usable = [name for name in _ordered(access) if not lack(name, access[name])]
    if wanted.model is not None:
        return _named(access, _only(access, usable, wanted.model, loc), wanted.model, loc)
    found = next((name for name in usable if access[name].usual), None)
    return None if found is None else _named(access, found, None, loc)


def lack(provider: str, access: ModelAccess) -> str:
    """Return what a provider lacks to be asked; empty where it lacks nothing."""
    host, variable = HOSTS.get(provider, ModelHost()), f"WEBDATA_LLM_{provider.upper()}"
    if host.needs_key and not access.key:
        return f"no key: set {variable}_KEY"
    if not (access.url or host.url):
        return f"no address: set {variable}_URL"
    return "" if access.url is None else _wrong(access.url, variable)


def standing(access: Mapping[str, ModelAccess]) -> tuple[bool, str]:
    """Return whether a model can be asked without being named, and what becomes of each provider.

    Examples
    --------
    >>> standing({"ollama": ModelAccess(url="http://localhost:11434/v1", model="m")})
    (True, 'ollama: m')
    """
    told = {
        name: lack(name, access[name]) or access[name].usual or "no model of its own: name one"
        for name in _ordered(access)
    }
    usable = any(each.usual and not lack(name, each) for name, each in access.items())
    return usable, "; ".join(f"{name}: {each}" for name, each in told.items())


def _wrong(url: str, variable: str) -> str:
    try:
        parts = urlsplit(http_url(url))
    except ValueError:
        return f"{variable}_URL must be an http:// or https:// URL with a host"
    if parts.username is not None or parts.password is not None:
        return f"{variable}_URL must have no user name or password"
    return ""


def _ordered(access: Mapping[str, ModelAccess]) -> list[str]:
    return [*(name for name in HOSTS if name in access), *sorted(set(access) - set(HOSTS))]


def _only(access: Mapping[str, ModelAccess], usable: list[str], model: str, loc: Loc) -> str:
    """Return the provider of a model that is named alone, where there is no doubt."""
    if not usable:
        raise BadInput(
            "no language model is set up here: without one, only declared data is read"
            f' (provider "{STRUCTURED}", no model)',
            loc=(*loc, "model"),
        )
    known = [name for name in usable if model in (access[name].model, *access[name].models)]
    meant = usable if len(usable) == 1 else known
    if len(meant) == 1:
        return meant[0]
    raise BadInput(f"say which provider: {', '.join(usable)}", loc=(*loc, "provider"))


def _named(access: Mapping[str, ModelAccess], provider: str, model: str | None, loc: Loc) -> Model:
    if provider not in HOSTS and provider not in access:
        known = ", ".join((STRUCTURED, *HOSTS, *sorted(set(access) - set(HOSTS))))
        raise BadInput(f"must be one of {known}", loc=(*loc, "provider"))
    given, host = access.get(provider, ModelAccess()), HOSTS.get(provider, ModelHost())
    if why := lack(provider, given):
        raise BadInput(f"{provider} is not set up: {why}", loc=(*loc, "provider"))
    if model is not None and given.allowed and model not in given.allowed:
        raise BadInput(f"must be one of {', '.join(given.allowed)}", loc=(*loc, "model"))
    name = model or given.usual
    if name is None:
        variable = f"WEBDATA_LLM_{provider.upper()}_MODEL"
        raise BadInput(f"say which model of {provider}, or set {variable}", loc=(*loc, "model"))
    return Model(
        provider=provider,
        name=name,
        url=(given.url or host.url).rstrip("/"),
        key=given.key or "",
        context=given.context or host.context,
        timeout_s=given.timeout or TIMEOUT_S,
        first=host.first,
    )
