"""What a call runs with: arguments > `options` > environment > defaults.

The only place of the toolkit that reads the environment, at each call, so that a notebook may
change it between two cells.

==========================  ==================================================================
variable                    meaning
==========================  ==================================================================
WEBDATA_BASE_URL            the service; without it the local one is started and found
WEBDATA_API_KEY             the bearer key
WEBDATA_HOME                a folder for data, cache and logs together
WEBDATA_CACHE               the cache's folder alone
WEBDATA_CACHE_BYTES         how large the cache may get; 10 GiB by default
WEBDATA_RECORD              a folder into which every answer is recorded
WEBDATA_REPLAY              a folder whose recorded answers are given instead of asking
WEBDATA_OFFLINE             1, on, yes, true: answer from the cache only
WEBDATA_PROGRESS            0 or off: no bars; or panel, html, marimo, bar, log
WEBDATA_TTL                 seconds for which a cached answer is fresh; `inf` for ever
WEBDATA_LOG                 the log level, such as `debug`
WEBDATA_NEST                1: a caller's own running loop lives on while a blocking call waits
WEBDATA_PROXY               the proxy towards the web and the service
WEBDATA_CA_BUNDLE           a file of certificate authorities to trust
WEBDATA_USER_AGENT          how the local service names itself to web sites and robots.txt
WEBDATA_ENGINE_ONE          provider names of `engine_one`, comma-separated (also _TWO, _THREE)
WEBDATA_<NAME>_URL, _KEY    address and key of a search provider
WEBDATA_CREATIVES_SOURCE    sample, google_ads_transparency or meta_ad_library
WEBDATA_CREATIVES_TERMS     address of the source's terms of use, to say that you accept them
WEBDATA_LLM_<NAME>_URL, _KEY  address and key of a language model provider
WEBDATA_LLM_<NAME>_MODEL    the model that it is asked for where a call names none
WEBDATA_LLM_<NAME>_MODELS   the models that a call may name, separated by commas; unset, any
WEBDATA_LLM_<NAME>_CONTEXT, _TIMEOUT  tokens that it takes, and seconds for one answer
==========================  ==================================================================
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlsplit

import platformdirs

from webdata_nb.contract import variables
from webdata_nb.contract.fields import ENGINES, http_url, proxy_url, user_agent
from webdata_nb.contract.local import SOURCES

_APP: Final = "webdata"
CACHE_BYTES: Final = 10 * 2**30
_YES: Final = frozenset({"1", "on", "yes", "true"})
_NO: Final = frozenset({"0", "off", "no", "false"})


class Secret:
    """A key that no repr, log line or traceback shows; `reveal` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def _secret(value: Secret | str | None) -> Secret | None:
    return value if isinstance(value, Secret) or value is None else Secret(value)


@dataclass(frozen=True, slots=True, init=False)
class Provider:
    """Where a search or language model provider is, and its key."""

    url: str | None
    key: Secret | None

    def __init__(self, url: str | None = None, key: Secret | str | None = None) -> None:
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "key", _secret(key))


@dataclass(frozen=True, slots=True, init=False)
class LanguageModel(Provider):
    """Where a language model provider is, its key, and what to ask of it.

    `model` is asked where a call names none, else the first of `models`; where there are `models`,
    a call may name those and `model`, and no other. `context` is how many tokens it takes, question
    and answer together; `timeout` the seconds that one answer may take. None is the provider's
    own default.
    """

    model: str | None
    context: int | None
    timeout: float | None
    models: tuple[str, ...]

    def __init__(
        self,
        url: str | None = None,
        key: Secret | str | None = None,
        *,
        model: str | None = None,
        context: int | None = None,
        timeout: float | None = None,
        models: Iterable[str] = (),
    ) -> None:
        Provider.__init__(self, url, key)
        object.__setattr__(self, "models", tuple(models))
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "context", context)
        object.__setattr__(self, "timeout", timeout)


class Overrides(TypedDict, total=False):
    """What a call may pass; None stands for "not given"."""

    base_url: str | None
    api_key: Secret | str | None
    home: Path | str | None
    data_dir: Path | str | None
    cache_dir: Path | str | None
    log_dir: Path | str | None
    cache_bytes: int | None
    record: Path | str | None
    replay: Path | str | None
    offline: bool | None
    progress: str | bool | None
    ttl: float | None
    log: str | None
    nest: bool | None
    engines: Mapping[str, tuple[str, ...]] | None
    providers: Mapping[str, Provider] | None
    llm: Mapping[str, Provider] | None
    creatives_source: str | None
    creatives_terms: str | None
    proxy: str | None
    ca_bundle: str | None
    user_agent: str | None


@dataclass(slots=True, kw_only=True)
class Options:
    """Settings of this process, for every later call; None leaves the choice to the environment.

    Examples
    --------
    >>> options = Options()
    >>> options.progress = False
    >>> options.progres = False
    Traceback (most recent call last):
    ...
    AttributeError: 'Options' object has no attribute 'progres'
    """

    base_url: str | None = None
    api_key: Secret | str | None = field(default=None, repr=False)
    home: Path | str | None = None
    data_dir: Path | str | None = None
    cache_dir: Path | str | None = None
    log_dir: Path | str | None = None
    cache_bytes: int | None = None
    record: Path | str | None = None
    replay: Path | str | None = None
    offline: bool | None = None
    progress: str | bool | None = None
    ttl: float | None = None
    log: str | None = None
    nest: bool | None = None
    engines: dict[str, tuple[str, ...]] = field(default_factory=dict)
    providers: dict[str, Provider] = field(default_factory=dict)
    llm: dict[str, Provider] = field(default_factory=dict)
    creatives_source: str | None = None
    creatives_terms: str | None = None
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None
    user_agent: str | None = None


options: Final = Options()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a call runs with.

    Attributes
    ----------
    base_url : str or None
        The service, without a slash at its end; None for the local service.
    api_key : Secret or None
        The bearer key; its repr is masked.
    home : Path or None
        The folder that holds data, cache and logs together, where one was named.
    data_dir, cache_dir, log_dir : Path
        Absolute folders; they need not exist.
    cache_bytes : int
        How large the cache may get, in bytes; the oldest results go first.
    record, replay : Path or None
        Folders that answers are recorded into, and replayed from.
    offline : bool
        Answer from the cache only.
    progress : str, bool or None
        False for no bars, True for bars, a name for one kind of bar; None chooses by place.
    ttl : float or None
        Seconds for which a cached answer is fresh; None for each operation's own default.
    log : str or None
        Level of the `webdata_nb` logger.
    nest : bool
        Keep a caller's own running loop alive while a blocking call waits.
    engines : dict[str, tuple[str, ...]]
        Provider names of each engine that was set, in order of preference.
    providers, llm : dict[str, Provider]
        Address and key of each provider, by lower-case name; those of `llm` may be a
        `LanguageModel`, which says more.
    creatives_source, creatives_terms : str or None
        The source of creatives, and the address of its terms of use where they were accepted.
    proxy, ca_bundle : str or None
        The way through a corporate proxy, and the authorities to trust.
    user_agent : str or None
        How the local service names itself to web sites; its product name is the one that
        robots.txt files address.
    """

    base_url: str | None = None
    api_key: Secret | None = None
    home: Path | None = None
    data_dir: Path
    cache_dir: Path
    log_dir: Path
    cache_bytes: int = CACHE_BYTES
    record: Path | None = None
    replay: Path | None = None
    offline: bool = False
    progress: str | bool | None = None
    ttl: float | None = None
    log: str | None = None
    nest: bool = False
    engines: dict[str, tuple[str, ...]] = field(default_factory=dict)
    providers: dict[str, Provider] = field(default_factory=dict)
    llm: dict[str, Provider] = field(default_factory=dict)
    creatives_source: str | None = None
    creatives_terms: str | None = None
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None
    user_agent: str | None = None


def current(**overrides: Unpack[Overrides]) -> Settings:
    """Return the settings of a call made now.

    Parameters
    ----------
    **overrides
        Arguments of the call, named as the fields of `Settings`; None means "not given".

    Raises
    ------
    ValueError
        A value that cannot be right; the message names the argument or the variable.
    TypeError
        An override that is no setting.
    """
    names = {each.name for each in fields(Options)}
    if unknown := sorted(set(overrides) - names):
        raise TypeError(f"not a setting: {', '.join(unknown)}")
    chosen: dict[str, Any] = _from_environment(os.environ)
    for layer in ({name: getattr(options, name) for name in names}, overrides):
        _lay(chosen, layer)
    return _checked(chosen)


def _lay(chosen: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """Put a layer's given values over `chosen`; mappings merge entry by entry."""
    for name, value in layer.items():
        if isinstance(value, Mapping):
            chosen[name] = {**chosen.get(name, {}), **value}
        elif value is not None:
            chosen[name] = value


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read every variable that is set and not empty."""
    given = {name: text.strip() for name, text in environ.items() if text.strip()}
    found: dict[str, Any] = {}
    for name, (key, parse) in _VARIABLES.items():
        if name in given:
            found[key] = parse(name, given[name])
    found["engines"] = variables.engines(given)
    found["providers"], found["llm"] = _providers(given)
    return found


def _text(_name: str, text: str) -> str:
    return text


def _flag(name: str, text: str) -> bool:
    word = text.lower()
    if word not in _YES | _NO:
        raise ValueError(f"{name} must be 1, on, yes, true or 0, off, no, false; it is {text!r}")
    return word in _YES


def _progress(_name: str, text: str) -> str | bool:
    word = text.lower()
    return word in _YES if word in _YES | _NO else word


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number of seconds; it is {text!r}") from None


def _bytes(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number of bytes; it is {text!r}")
    return int(text)


_VARIABLES: Final = {
    "WEBDATA_BASE_URL": ("base_url", _text),
    "WEBDATA_API_KEY": ("api_key", _text),
    "WEBDATA_HOME": ("home", _text),
    "WEBDATA_CACHE": ("cache_dir", _text),
    "WEBDATA_CACHE_BYTES": ("cache_bytes", _bytes),
    "WEBDATA_RECORD": ("record", _text),
    "WEBDATA_REPLAY": ("replay", _text),
    "WEBDATA_OFFLINE": ("offline", _flag),
    "WEBDATA_PROGRESS": ("progress", _progress),
    "WEBDATA_TTL": ("ttl", _number),
    "WEBDATA_LOG": ("log", _text),
    "WEBDATA_NEST": ("nest", _flag),
    "WEBDATA_CREATIVES_SOURCE": ("creatives_source", _text),
    "WEBDATA_CREATIVES_TERMS": ("creatives_terms", _text),
    "WEBDATA_PROXY": ("proxy", _text),
    "WEBDATA_CA_BUNDLE": ("ca_bundle", _text),
    "WEBDATA_USER_AGENT": ("user_agent", _text),
}


def _providers(given: Mapping[str, str]) -> tuple[dict[str, Provider], dict[str, Provider]]:
    """Collect WEBDATA_<NAME>_URL and the like, search providers apart from language models."""
    search: dict[str, dict[str, Any]] = {}
    llm: dict[str, dict[str, Any]] = {}
    for name, text in given.items():
        if (found := variables.provider_variable(name)) is not None:
            group = llm if found.llm else search
            value = variables.provider_value(name, found, text)
            group.setdefault(found.provider, {})[found.part] = value
    return (
        {name: Provider(**parts) for name, parts in search.items()},
        {name: LanguageModel(**parts) for name, parts in llm.items()},
    )


def _checked(chosen: dict[str, Any]) -> Settings:
    """Resolve the folders and refuse what cannot be right."""
    home = _folder(chosen.pop("home", None))
    return Settings(
        **{
            **chosen,
            **{name: _folder(chosen.get(name)) or at for name, at in _folders(home).items()},
            "home": home,
            "record": _folder(chosen.get("record")),
            "replay": _folder(chosen.get("replay")),
            "cache_bytes": _cache_bytes(chosen.get("cache_bytes")),
            "base_url": _base_url(chosen.get("base_url")),
            "api_key": _secret(chosen.get("api_key")),
            "ttl": _ttl(chosen.get("ttl")),
            "user_agent": _user_agent(chosen.get("user_agent")),
            "proxy": _proxy(chosen.get("proxy")),
            "ca_bundle": _ca_bundle(chosen.get("ca_bundle")),
            "engines": _known_engines(chosen["engines"]),
            "creatives_source": _source(chosen.get("creatives_source")),
        }
    )


def _folder(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path).expanduser().absolute()


def _folders(home: Path | None) -> dict[str, Path]:
    """Return the default folders, below `home` or where the system keeps such things."""
    if home is not None:
        return {"data_dir": home / "data", "cache_dir": home / "cache", "log_dir": home / "logs"}
    data = platformdirs.user_data_path(_APP, appauthor=False)
    cache = platformdirs.user_cache_path(_APP, appauthor=False)
    return {"data_dir": data / "data", "cache_dir": cache, "log_dir": data / "logs"}


def _base_url(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        url = http_url(value).rstrip("/")
    except ValueError as error:
        raise ValueError(f"base_url (WEBDATA_BASE_URL) {error}") from None
    parts = urlsplit(url)
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            "base_url (WEBDATA_BASE_URL) must have no user name, query or fragment: "
            "a key goes into api_key (WEBDATA_API_KEY)"
        )
    return url


def _user_agent(value: str | None) -> str | None:
    try:
        return None if value is None else user_agent(value)
    except ValueError as error:
        raise ValueError(f"user_agent (WEBDATA_USER_AGENT) {error}") from None


def _proxy(value: str | None) -> str | None:
    try:
        return None if value is None else proxy_url(value)
    except ValueError as error:
        raise ValueError(f"proxy (WEBDATA_PROXY) {error}") from None


def _ca_bundle(value: str | None) -> str | None:
    """Return the bundle as a path that means the same in the service's folder."""
    path = _folder(value)
    if path is None:
        return None
    if not path.is_file():
        raise ValueError(
            f"ca_bundle (WEBDATA_CA_BUNDLE) must be a file of certificates (PEM): {path} is none"
        )
    return str(path)


def _source(name: str | None) -> str | None:
    if name is not None and name not in SOURCES:
        raise ValueError(
            f"creatives_source (WEBDATA_CREATIVES_SOURCE) must be one of {', '.join(SOURCES)}"
        )
    return name


def _ttl(value: float | None) -> float | None:
    if value is not None and (math.isnan(value) or value < 0):
        raise ValueError(f"ttl (WEBDATA_TTL) must be a number of seconds from 0; it is {value!r}")
    return value


def _cache_bytes(value: object) -> int:
    if value is None:
        return CACHE_BYTES
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("cache_bytes (WEBDATA_CACHE_BYTES) must be a whole number of bytes from 0")
    return value


def _known_engines(engines: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    if unknown := sorted(set(engines) - set(ENGINES)):
        raise ValueError(f"engines must be named {', '.join(ENGINES)}; not {', '.join(unknown)}")
    # A text would otherwise fall apart into letters.
    return {
        name: variables.names(given) if isinstance(given, str) else tuple(given)
        for name, given in engines.items()
    }
