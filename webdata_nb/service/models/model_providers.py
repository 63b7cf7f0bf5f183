"""Catalog of language model providers, and the selection of the model for a request. Pure.

Addresses and keys come only from settings; a request names at most a provider and a model.
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
from webdata_nb.page.errors import BadInput
from webdata_nb.page.extract.schema import Loc
from webdata_nb.service.models.chat import ResponseFormat

STRUCTURED: Final = "structured"
# A model on a small machine takes a minute for a long answer.
TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class ModelHost:
    """A provider with an API compatible with OpenAI's chat completions.

    Attributes
    ----------
    url
        The base URL; empty if the settings must name it.
    needs_key
        Whether the provider requires an API key.
    first_format
        The response format of the first request.
    context
        The model's context in tokens, unless the settings state it.
    """

    url: str = ""
    needs_key: bool = False
    first_format: ResponseFormat = "json_schema"
    context: int = 8192


HOSTS: Final[Mapping[str, ModelHost]] = {
    "openai": ModelHost("https://api.openai.com/v1", needs_key=True, context=32_000),
    # The compatible endpoint ignores the response format, so it is not sent.
    "anthropic": ModelHost(
        "https://api.anthropic.com/v1", needs_key=True, first_format="prompt", context=32_000
    ),
    "gemini": ModelHost(
        "https://generativelanguage.googleapis.com/v1beta/openai", needs_key=True, context=32_000
    ),
    "mistral": ModelHost("https://api.mistral.ai/v1", needs_key=True, context=32_000),
    "groq": ModelHost("https://api.groq.com/openai/v1", needs_key=True),
    "openrouter": ModelHost("https://openrouter.ai/api/v1", needs_key=True),
    # Ollama's default; it silently drops the rest of a longer prompt.
    "ollama": ModelHost(context=4096),
    "vllm": ModelHost(),
    "custom": ModelHost(),
}


@dataclass(frozen=True, slots=True)
class Model:
    """A model of one provider, with its address and limits. The repr omits address and key."""

    provider: str
    name: str
    url: str = field(repr=False)
    key: str = field(repr=False)
    context: int
    timeout_s: float
    first_format: ResponseFormat

    @property
    def identity(self) -> str:
        """An identifier of the provider, address and key that reveals neither."""
        access = f"{self.provider}\0{self.url}\0{self.key}"
        return f"{self.provider}#{hashlib.sha256(access.encode()).hexdigest()[:16]}"


def select_model(access: Mapping[str, ModelAccess], request: Extract, *, loc: Loc) -> Model | None:
    """Return the model for a request; None for extraction without a model.

    If the request names no provider, the first usable one in the order of `HOSTS` whose settings
    name a model is selected.

    Raises
    ------
    BadInput
        The provider is not set up, the settings do not allow the model, or the request is
        ambiguous.
    """
    if request.provider == STRUCTURED:
        if request.model is not None:
            raise BadInput("the provider structured has no models", loc=(*loc, "model"))
        return None
    if request.provider is not None:
        return _model(access, request.provider, request.model, loc)
    usable = [name for name in _in_order(access) if not missing_setting(name, access[name])]
    if request.model is not None:
        provider = _provider_of_model(access, usable, request.model, loc)
        return _model(access, provider, request.model, loc)
    default = next((name for name in usable if access[name].usual), None)
    return None if default is None else _model(access, default, None, loc)


def setup_hint(access: Mapping[str, ModelAccess]) -> str:
    """Return which variables to set for a default model; the first provider with access wins.

    Examples
    --------
    >>> setup_hint({"openai": ModelAccess(key="k")})
    'set WEBDATA_LLM_OPENAI_MODEL, or give a schema'
    """
    provider = next(iter(_in_order(access)), None)
    if provider is None:
        return (
            "set WEBDATA_LLM_OPENAI_KEY and WEBDATA_LLM_OPENAI_MODEL (or ANTHROPIC, GEMINI, "
            "MISTRAL, ...), or WEBDATA_LLM_OLLAMA_URL and _MODEL for a local one, or give a schema"
        )
    variable = f"WEBDATA_LLM_{provider.upper()}"
    problem = missing_setting(provider, access[provider])
    missing = problem.rpartition(": ")[2] if problem else f"set {variable}_MODEL"
    return f"{missing}, or give a schema"


def missing_setting(provider: str, access: ModelAccess) -> str:
    """Return which setting of a provider is missing or invalid; empty if it is usable."""
    host, variable = HOSTS.get(provider, ModelHost()), f"WEBDATA_LLM_{provider.upper()}"
    if host.needs_key and not access.key:
        return f"no key: set {variable}_KEY"
    if not (access.url or host.url):
        return f"no address: set {variable}_URL"
    return "" if access.url is None else _url_error(access.url, variable)


def provider_status(access: Mapping[str, ModelAccess]) -> tuple[bool, str]:
    """Return whether a default model is usable, and the model or problem of each provider.

    Examples
    --------
    >>> provider_status({"ollama": ModelAccess(url="http://localhost:11434/v1", model="m")})
    (True, 'ollama: m')
    """
    status = {
        name: missing_setting(name, access[name])
        or access[name].usual
        or "no default model: name one"
        for name in _in_order(access)
    }
    usable = any(
        provider.usual and not missing_setting(name, provider) for name, provider in access.items()
    )
    return usable, "; ".join(f"{name}: {text}" for name, text in status.items())


def _url_error(url: str, variable: str) -> str:
    try:
        parts = urlsplit(http_url(url))
    except ValueError:
        return f"{variable}_URL must be an http:// or https:// URL with a host"
    if parts.username is not None or parts.password is not None:
        return f"{variable}_URL must have no user name or password"
    return ""


def _in_order(access: Mapping[str, ModelAccess]) -> list[str]:
    return [*(name for name in HOSTS if name in access), *sorted(set(access) - set(HOSTS))]


def _provider_of_model(
    access: Mapping[str, ModelAccess], usable: list[str], model: str, loc: Loc
) -> str:
    """Return the only usable provider, or the only one whose settings name the model."""
    if not usable:
        raise BadInput(
            "no language model is set up here: without one, only declared data is read"
            f' (provider "{STRUCTURED}", no model)',
            loc=(*loc, "model"),
        )
    with_model = [name for name in usable if model in (access[name].model, *access[name].models)]
    candidates = usable if len(usable) == 1 else with_model
    if len(candidates) == 1:
        return candidates[0]
    raise BadInput(f"say which provider: {', '.join(usable)}", loc=(*loc, "provider"))


def _model(access: Mapping[str, ModelAccess], provider: str, model: str | None, loc: Loc) -> Model:
    if provider not in HOSTS and provider not in access:
        names = ", ".join((STRUCTURED, *HOSTS, *sorted(set(access) - set(HOSTS))))
        raise BadInput(f"must be one of {names}", loc=(*loc, "provider"))
    settings, host = access.get(provider, ModelAccess()), HOSTS.get(provider, ModelHost())
    if problem := missing_setting(provider, settings):
        raise BadInput(f"{provider} is not set up: {problem}", loc=(*loc, "provider"))
    if model is not None and settings.allowed and model not in settings.allowed:
        raise BadInput(f"must be one of {', '.join(settings.allowed)}", loc=(*loc, "model"))
    name = model or settings.usual
    if name is None:
        variable = f"WEBDATA_LLM_{provider.upper()}_MODEL"
        raise BadInput(f"say which model of {provider}, or set {variable}", loc=(*loc, "model"))
    return Model(
        provider=provider,
        name=name,
        url=(settings.url or host.url).rstrip("/"),
        key=settings.key or "",
        context=settings.context or host.context,
        timeout_s=settings.timeout or TIMEOUT_S,
        first_format=host.first_format,
    )
