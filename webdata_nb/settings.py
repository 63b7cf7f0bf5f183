"""Resolves the settings of a call: arguments > `options` > environment > defaults.

This is the only module of the toolkit that reads the environment. It does so at each call, so that
a notebook may change a variable between two cells. `docs/guide/settings.md` lists the variables.
"""

from __future__ import annotations

import functools
import getpass
import html
import math
import os
import re
import stat
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

import platformdirs
from pydantic import ValidationError

from webdata_nb import caller
from webdata_nb.contract import variables
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.fields import http_url, proxy_url, user_agent
from webdata_nb.contract.local import SOURCES, Access, ModelAccess
from webdata_nb.errors import InvalidArgument, UnknownOption
from webdata_nb.suggestions import closest, closest_url, did_you_mean, format_value, quoted

# Values of settings, from any source


CACHE_BYTES: Final = 10 * 2**30
PROGRESS_KINDS: Final = ("bar", "html", "log", "panel", "marimo")
TRACEBACKS: Final = ("short", "full")
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_REPR_COLUMNS: Final = 80
# What is allowed as a duration, for messages, and its texts.
DURATION: Final = 'a number of seconds, or a duration such as "90s", "2min", "1h 30min" or "7d"'
_SECONDS_OF: Final = {
    "ms msec milliseconds millisecond": 0.001,
    "s sec secs second seconds": 1,
    "m min mins minute minutes": 60,
    "h hr hrs hour hours": 3600,
    "d day days": 86_400,
    "w week weeks": 604_800,
}
_UNITS: Final = {unit: s for units, s in _SECONDS_OF.items() for unit in units.split()}
_PART: Final = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(sorted(_UNITS, key=len, reverse=True))})")
_DURATION: Final = re.compile(rf"{_PART.pattern}(?:(?:\s|,|and)*{_PART.pattern})*")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?|inf(?:inity)?", re.ASCII)
_TRUE_WORDS: Final = frozenset({"1", "on", "yes", "true"})
_FALSE_WORDS: Final = frozenset({"0", "off", "no", "false"})


_NAMES_OF: Final = "engines[{!r}] must be a list of provider names"
_V = TypeVar("_V")
Duration: TypeAlias = float | str | timedelta


# Variables


def parse_boolean(name: str, text: str) -> bool:
    """Parse the word of a variable that is on or off."""
    word = text.lower()
    if word not in _TRUE_WORDS | _FALSE_WORDS:
        raise ValueError(f"{name} must be 1, on, yes, true or 0, off, no, false; it is {text!r}")
    return word in _TRUE_WORDS


def parse_progress(_name: str, text: str) -> str | bool:
    """Parse on, off or the name of a kind of bar."""
    word = text.lower()
    return word in _TRUE_WORDS if word in _TRUE_WORDS | _FALSE_WORDS else word


def seconds(value: object) -> float | None:
    """Return a duration in seconds: a number of them, a timedelta or a text; None for others.

    Examples
    --------
    >>> [seconds(text) for text in ("90", "1h 30min", "500ms", "7 days", "soon")]
    [90.0, 5400.0, 0.5, 604800.0, None]
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if math.isnan(value) else float(value)
    if not isinstance(value, str):
        return None
    if _NUMBER.fullmatch(value.strip().lower()):
        return float(value)
    if not _DURATION.fullmatch(value.strip().lower()):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value.lower()))


def earlier_time(text: str, now: datetime) -> datetime | None:
    """Return the time that "today", "yesterday" or a duration such as "2 days ago" means.

    A day is its first moment in the zone of `now`; None for any other text.

    Examples
    --------
    >>> now = datetime(2026, 11, 29, 6, 53, tzinfo=UTC)
    >>> [str(earlier_time(text, now))[:16] for text in ("yesterday", "6h", "2 weeks ago")]
    ['2026-11-28 00:00', '2026-11-29 00:53', '2026-11-15 06:53']
    """
    word = text.strip().lower()
    if word in {"today", "yesterday"}:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight - timedelta(days=word == "yesterday")
    passed = None if _NUMBER.fullmatch(word) else seconds(word.removesuffix(" ago"))
    with suppress(OverflowError):
        return None if passed is None else now - timedelta(seconds=passed)
    return None


def parse_seconds(name: str, text: str) -> float:
    """Parse a duration."""
    if (duration := seconds(text)) is None:
        raise ValueError(f"{name} must be {DURATION}; it is {text!r}")
    return duration


def parse_bytes(name: str, text: str) -> int:
    """Parse a number of bytes."""
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number of bytes; it is {text!r}")
    return int(text)


# Folders


def user_directory(parent: Path) -> Path | None:
    """Create a private directory of this user in a shared one; None if another user has it."""
    directory = parent / f"webdata-{os.getuid() if os.name != 'nt' else getpass.getuser()}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
    except OSError:
        return None
    return directory if stat.S_ISDIR(status.st_mode) and is_private(status) else None


def is_private(status: os.stat_result) -> bool:
    """Whether only this user has access; on Windows, the user's directories are private."""
    if os.name == "nt":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


@functools.cache
def temporary_home() -> Path:
    """Return a folder for a user without a home directory, and warn once.

    Raises
    ------
    ValueError
        No temporary directory can be written.
    """
    reason = "this user has no home directory (HOME is not set)"
    try:
        directory = user_directory(Path(tempfile.gettempdir()))
    except OSError:
        directory = None
    if directory is None:
        raise ValueError(
            f"{reason} and no temporary directory: set WEBDATA_HOME to a directory that can be "
            "written"
        )
    home = directory / "home"
    caller.warn(
        f"{reason}: results and the data of the local service are kept in the temporary directory "
        f"{home}. Set WEBDATA_HOME to a directory that can be written."
    )
    return home


# Values from any source


def check_folder(name: str, path: object) -> Path:
    """Return a folder, which need not exist, as an absolute path."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise ValueError(f"{name} must be a path; it is {format_value(path)}")  # noqa: TRY004
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"the folder {str(path)!r} has no known place: {error}") from None


def check_text(name: str, value: object) -> str:
    """Check a setting that is any text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string; it is {format_value(value)}")  # noqa: TRY004
    return value


def check_url(name: str, value: str) -> str:
    """Check an http or https URL."""
    try:
        return http_url(value)
    except ValueError as error:
        suggestion = did_you_mean(closest_url(value))
        raise ValueError(f"{name} {error}; it is {format_value(value)}{suggestion}") from None


def check_base_url(name: str, value: object) -> str:
    """Return the address of a service without a slash at its end."""
    url = check_url(name, check_text(name, value)).rstrip("/")
    parts = urlsplit(url)
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            f"{name} must have no user name, query or fragment: "
            "a key goes into api_key (WEBDATA_API_KEY)"
        )
    return url


def check_user_agent(name: str, value: object) -> str:
    """Check the user agent of the local service."""
    text = check_text(name, value)
    try:
        return user_agent(text)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def check_proxy(name: str, value: object) -> str:
    """Check the address of a proxy."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string; it is a {type(value).__name__}")  # noqa: TRY004
    try:
        return proxy_url(value)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def check_ca_bundle(name: str, value: object) -> str:
    """Return the bundle as a path that means the same in the service's folder."""
    path = check_folder(name, value)
    if not path.is_file():
        raise ValueError(f"{name} must be a file of certificates (PEM): {path} is none")
    return str(path)


def check_choice(name: str, value: object, allowed: Sequence[str], also: str = "") -> str:
    """Check a setting with a list of values."""
    if isinstance(value, str) and value.lower() in allowed:
        return value.lower()
    suggestion = did_you_mean(quoted(closest(value, allowed)))
    words = ", ".join(map(repr, allowed))
    raise ValueError(
        f"{name} must be {also}one of {words}; it is {format_value(value)}{suggestion}"
    )


def check_progress(name: str, value: object) -> str | bool:
    """Return a boolean or the name of a kind of bar."""
    if isinstance(value, bool):
        return value
    return check_choice(name, value, PROGRESS_KINDS, also="True, False, None or ")


def check_flag(name: str, value: object) -> bool:
    """Check a setting that is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False; it is {format_value(value)}")  # noqa: TRY004
    return value


def check_ttl(name: str, value: object) -> float:
    """Check a duration; return it in seconds."""
    duration = seconds(value)
    if duration is None or duration < 0:
        raise ValueError(f"{name} must be {DURATION}; it is {format_value(value)}")
    return duration


def check_cache_bytes(name: str, value: object) -> int:
    """Check the maximum size of the cache."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(
            f"{name} must be a whole number of bytes from 0; it is {format_value(value)}"
        )
    return value


def check_engine(name: object, providers: object) -> tuple[str, ...]:
    """Return the provider names of an engine."""
    if name not in ENGINES:
        suggestion = did_you_mean(quoted(closest(name, ENGINES)))
        raise ValueError(
            f"engines must be named {', '.join(ENGINES)}; not {format_value(name)}{suggestion}"
        )
    # A text is not a list of letters.
    names = variables.split_names(providers) if isinstance(providers, str) else providers
    if isinstance(names, Mapping) or not isinstance(names, Iterable):
        problem = f"{_NAMES_OF.format(name)}; it is {format_value(providers)}"
        raise ValueError(problem)  # noqa: TRY004 - as of other settings
    listed = tuple(names)
    if wrong := [each for each in listed if not isinstance(each, str) or not each.strip()]:
        raise ValueError(f"{_NAMES_OF.format(name)}; one is {format_value(wrong[0])}")
    return tuple(each.strip().lower() for each in listed)


class CheckedEntries(dict[str, _V]):
    """A setting with entries, each of which is checked when it is set.

    `check` returns the value of an entry as it is kept, from its name and what was given.
    """

    def __init__(self, check: Callable[[str, Any], _V], entries: Mapping[str, Any]) -> None:
        self._check = check
        self.update(entries)

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, *entries: Any, **named: Any) -> None:
        """Set all entries, or none if one is not allowed."""
        try:
            new = dict(*entries, **named)
            checked = {name: self._check(name, value) for name, value in new.items()}
        except (ValueError, TypeError) as error:
            raise InvalidArgument(str(error)) from None
        super().update(checked)

    def setdefault(self, name: str, value: Any = None) -> _V:
        """Set an entry that is not there yet, and return it."""
        if name not in self:
            self[name] = value
        return self[name]

    # `|` returns a plain dict.
    def __ior__(self, entries: Any) -> Self:  # type: ignore[misc,override]
        self.update(entries)
        return self

    def __reduce__(self) -> tuple[type, tuple[dict[str, _V]]]:
        return dict, (dict(self),)


_APP: Final = "webdata"
_FOLDERS: Final = frozenset({"data_dir", "cache_dir", "log_dir"})


class Secret:
    """A key that no repr, log line or traceback shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key as text, to send it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def _secret(value: Secret | str | None) -> Secret | None:
    if value is not None and not isinstance(value, Secret | str):
        raise InvalidArgument(f"a key must be text; it is a {type(value).__name__}")
    return Secret(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, init=False)
class Provider:
    """The address and key of a search or language model provider."""

    url: str | None
    key: Secret | None

    def __init__(self, url: str | None = None, key: Secret | str | None = None) -> None:
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "key", _secret(key))


@dataclass(frozen=True, slots=True, init=False)
class LanguageModel(Provider):
    """The address and key of a language model provider, and the models that calls may use.

    A call that names no model uses `model`, else the first of `models`. Where there are `models`, a
    call may name only those and `model`. `context` is the number of tokens of a question and its
    answer, `timeout` the seconds for one answer. None: the provider's default.
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
        # A text is not a list of letters.
        listed = models.split(",") if isinstance(models, str) else models
        names = (each.strip() if isinstance(each, str) else each for each in listed)
        object.__setattr__(self, "models", tuple(each for each in names if each))
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "context", context)
        object.__setattr__(self, "timeout", timeout)


# Definitions


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a setting comes from: its variable, and functions that parse and check its value.

    All of them take a name for messages and a value. `entry` checks one entry of a setting that has
    several.
    """

    variable: str | None = None
    parse: Callable[[str, str], object] | None = None
    check: Callable[[str, Any], object] | None = None
    entry: Callable[[str, Any], object] | None = None

    def checked(self, setting: str, value: Any) -> Any:
        """Return a value as the setting has it; None stays None."""
        if value is None or self.check is None:
            return value
        return self.check(f"{setting} ({self.variable})" if self.variable else setting, value)


def _source(
    variable: str | None = None, **functions: Callable[[str, Any], object]
) -> Mapping[str, _Source]:
    return {"source": _Source(variable, **functions)}


def _provider_check(setting: str) -> Callable[[str, Any], Provider]:
    """Return a check of an entry of `providers` or `llm`."""

    def check(name: object, provider: object) -> Provider:
        entry = f"{setting}[{format_value(name)}]"
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"{setting} must have names as keys; one is {format_value(name)}")
        if not isinstance(provider, Provider):
            example = (
                'LanguageModel("http://...")' if setting == "llm" else 'Provider("http://...")'
            )
            raise ValueError(  # noqa: TRY004 - as of other settings
                f"{entry} must be a provider, such as {example} of webdata_nb.settings; "
                f"it is a {type(provider).__name__}"  # perhaps a key
            )
        try:
            model_access(provider) if setting == "llm" else provider_access(provider)
        except ValidationError as error:
            [first, *_] = error.errors(include_input=False)
            raise ValueError(f"{entry}: {first['loc'][0]} {plain_message(first)}") from None
        if provider.url is not None:
            check_url(f"{entry}: url", provider.url)
        return provider

    return check


def provider_access(provider: Provider) -> Access:
    """Return a provider as the service takes it."""
    return Access(url=provider.url, key=provider.key.reveal() if provider.key else None)


def model_access(provider: Provider) -> ModelAccess:
    """Return a language model as the service takes it."""
    options: dict[str, Any] = {}
    if isinstance(provider, LanguageModel):
        options = {name: getattr(provider, name) for name in ("model", "context", "timeout")}
        options |= {"models": provider.models} if provider.models else {}
    return ModelAccess.model_validate({**provider_access(provider).model_dump(), **options})


@dataclass(slots=True, kw_only=True)
class Options:
    """Settings of this process, for every later call; None leaves the choice to the environment.

    This is the definition of each setting; `Settings` holds the value that a call runs with.

    Attributes
    ----------
    base_url : str or None
        The service; without it, the local service.
    api_key : Secret, str or None
        The bearer key; its repr is masked.
    home : path or None
        A folder that holds data, cache and logs together.
    data_dir, cache_dir, log_dir : path or None
        Single folders; they need not exist.
    cache_bytes : int or None
        Maximum size of the cache in bytes; the oldest results are removed first.
    record, replay : path or None
        Folders that answers are recorded into, and replayed from.
    offline : bool or None
        Answer from the cache only.
    progress : str, bool or None
        False for no bars, True for bars, a name for one kind of bar; None chooses by place.
    compact_tables : bool or None
        False displays result frames in notebooks as pandas does, not as compact tables.
    ttl : float or None
        Seconds for which a cached answer is fresh, or a duration such as "1h"; None for each
        operation's own default.
    log : str or None
        Level of the `webdata_nb` logger: debug, info, warning, error or critical.
    tracebacks : str or None
        `"short"` (default) shows the message of a `WebdataError` in notebooks, `"full"` the whole
        traceback.
    nest : bool or None
        Keep a caller's own running loop alive while a blocking call waits.
    engines : dict[str, tuple[str, ...]]
        Provider names of each engine, in order of preference.
    providers, llm : dict[str, Provider]
        Search and language model providers by lower-case name; those of `llm` may be a
        `LanguageModel`.
    creatives_source, creatives_terms : str or None
        The source of creatives, and the address of its terms of use if you accept them.
    proxy, ca_bundle : str or None
        The proxy towards the web and the service, and a file of certificate authorities to trust.
    user_agent : str or None
        How the local service names itself to web sites; robots.txt files address its product name.

    Examples
    --------
    >>> options = Options()
    >>> options.progress = False
    >>> options.progres = False
    Traceback (most recent call last):
    ...
    webdata_nb.errors.UnknownOption: 'progres' is not an option: did you mean 'progress'?
    """

    base_url: str | None = field(
        default=None, metadata=_source("WEBDATA_BASE_URL", check=check_base_url)
    )
    api_key: Secret | str | None = field(
        default=None,
        repr=False,
        metadata=_source("WEBDATA_API_KEY", check=lambda _name, value: _secret(value)),
    )
    home: Path | str | None = field(
        default=None, metadata=_source("WEBDATA_HOME", check=check_folder)
    )
    data_dir: Path | str | None = field(default=None, metadata=_source(check=check_folder))
    cache_dir: Path | str | None = field(
        default=None, metadata=_source("WEBDATA_CACHE", check=check_folder)
    )
    log_dir: Path | str | None = field(default=None, metadata=_source(check=check_folder))
    cache_bytes: int | None = field(
        default=None,
        metadata=_source("WEBDATA_CACHE_BYTES", parse=parse_bytes, check=check_cache_bytes),
    )
    record: Path | str | None = field(
        default=None, metadata=_source("WEBDATA_RECORD", check=check_folder)
    )
    replay: Path | str | None = field(
        default=None, metadata=_source("WEBDATA_REPLAY", check=check_folder)
    )
    offline: bool | None = field(
        default=None,
        metadata=_source("WEBDATA_OFFLINE", parse=parse_boolean, check=check_flag),
    )
    progress: str | bool | None = field(
        default=None,
        metadata=_source("WEBDATA_PROGRESS", parse=parse_progress, check=check_progress),
    )
    compact_tables: bool | None = field(
        default=None,
        metadata=_source("WEBDATA_COMPACT_TABLES", parse=parse_boolean, check=check_flag),
    )
    ttl: Duration | None = field(
        default=None,
        metadata=_source("WEBDATA_TTL", parse=parse_seconds, check=check_ttl),
    )
    log: str | None = field(
        default=None,
        metadata=_source("WEBDATA_LOG", check=functools.partial(check_choice, allowed=LOG_LEVELS)),
    )
    tracebacks: str | None = field(
        default=None,
        metadata=_source(
            "WEBDATA_TRACEBACKS", check=functools.partial(check_choice, allowed=TRACEBACKS)
        ),
    )
    nest: bool | None = field(
        default=None,
        metadata=_source("WEBDATA_NEST", parse=parse_boolean, check=check_flag),
    )
    engines: dict[str, tuple[str, ...]] = field(
        default_factory=dict, metadata=_source(entry=check_engine)
    )
    providers: dict[str, Provider] = field(
        default_factory=dict, metadata=_source(entry=_provider_check("providers"))
    )
    llm: dict[str, Provider] = field(
        default_factory=dict, metadata=_source(entry=_provider_check("llm"))
    )
    creatives_source: str | None = field(
        default=None,
        metadata=_source(
            "WEBDATA_CREATIVES_SOURCE", check=functools.partial(check_choice, allowed=SOURCES)
        ),
    )
    creatives_terms: str | None = field(
        default=None, metadata=_source("WEBDATA_CREATIVES_TERMS", check=check_text)
    )
    proxy: str | None = field(
        default=None, repr=False, metadata=_source("WEBDATA_PROXY", check=check_proxy)
    )
    ca_bundle: str | None = field(
        default=None, metadata=_source("WEBDATA_CA_BUNDLE", check=check_ca_bundle)
    )
    user_agent: str | None = field(
        default=None, metadata=_source("WEBDATA_USER_AGENT", check=check_user_agent)
    )

    def __repr__(self) -> str:
        """Return what is set here or in the environment, one line each, and the other names."""
        lines = self._lines()
        columns = [max(map(len, column), default=0) for column in zip(*lines, strict=True)]
        padded = [zip(line, columns, strict=True) for line in lines]
        table = ["  ".join(f"{text:{width}}" for text, width in line).rstrip() for line in padded]
        return "\n".join([*table, *textwrap.wrap(self._rest(lines), _REPR_COLUMNS)])

    def _repr_html_(self) -> str:
        lines = self._lines()
        cell = "padding:2px 6px;text-align:left;vertical-align:top;border:0;overflow-wrap:anywhere"
        rows = "".join(
            f'<tr style="background:none"><th scope="row" style="{cell};white-space:nowrap">'
            f'{html.escape(name)}</th><td style="{cell}">{html.escape(value)}</td>'
            f'<td style="{cell};white-space:nowrap">{html.escape(place)}</td></tr>'
            for name, value, place in lines
        )
        return (
            '<table style="border-collapse:collapse;margin:0;font-family:sans-serif;'
            f'font-size:13px;color:inherit"><tbody>{rows}</tbody></table>'
            '<div style="font-family:sans-serif;font-size:12px;line-height:1.5;margin:0 6px">'
            f"{html.escape(self._rest(lines))}</div>"
        )

    def _rest(self, lines: Sequence[tuple[str, str, str]]) -> str:
        names = {name for name, _, _ in lines}
        return f"not set: {', '.join(each.name for each in fields(self) if each.name not in names)}"

    def _lines(self) -> list[tuple[str, str, str]]:
        """Return each setting that is set, its value without secrets, and where it is set."""
        environment = Options()
        lines = []
        if self is options:
            try:
                environment = _from_environment(os.environ)
            except ValueError:
                lines.append(("", "a variable has a value that is not allowed", "environment"))
        for each in fields(self):
            own = getattr(self, each.name)
            value = getattr(environment, each.name) if own in (None, {}) else own
            if value in (None, {}):
                continue
            variable = each.metadata["source"].variable or "environment"
            place = variable if own in (None, {}) else "set here"
            if not each.repr:
                text = "***"
            elif each.name in {"providers", "llm"}:  # their entries have keys
                text = ", ".join(value)
            elif isinstance(value, Mapping):
                text = "; ".join(f"{name}: {', '.join(names)}" for name, names in value.items())
            else:
                text = re.sub("//[^/@]*@", "//***@", str(value))  # not checked yet
            lines.append((each.name, text, place))
        return lines

    if not TYPE_CHECKING:  # a type checker finds unknown names by itself

        def __setattr__(self, name: str, value: Any) -> None:
            """Set a setting; an unknown name or a value that is not allowed is an error at once."""
            source = _SOURCES.get(name)
            if source is None:
                suggestion = did_you_mean(quoted(closest(name, _SOURCES)))
                raise UnknownOption(f"{name!r} is not an option{suggestion}")
            if source.entry is not None:
                entries = {} if value is None else value
                if not isinstance(entries, Mapping):
                    raise InvalidArgument(
                        f"{name} must be a dict with an entry for each name; "
                        f"it is {format_value(value)}"
                    )
                value = CheckedEntries(source.entry, entries)
            try:
                source.checked(name, value)
            except (ValueError, TypeError) as error:
                raise InvalidArgument(str(error)) from None
            object.__setattr__(self, name, value)


_SOURCES: Final[Mapping[str, _Source]] = {
    each.name: each.metadata["source"] for each in fields(Options)
}
options: Final = Options()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one call; `Options` describes them. Folders are absolute."""

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
    compact_tables: bool = True
    ttl: float | None = None
    log: str | None = None
    tracebacks: str | None = None
    nest: bool = False
    engines: dict[str, tuple[str, ...]] = field(default_factory=dict)
    providers: dict[str, Provider] = field(default_factory=dict)
    llm: dict[str, Provider] = field(default_factory=dict)
    creatives_source: str | None = None
    creatives_terms: str | None = None
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None
    user_agent: str | None = None


def current(*arguments: Options) -> Settings:
    """Return the settings of a call made now.

    Parameters
    ----------
    *arguments
        Settings of the call and of its connection, which replace those of `options` and of the
        environment; the last one wins.

    Raises
    ------
    ValueError
        A value is not allowed; the message names the argument or the variable.
    """
    merged = _from_environment(os.environ)
    for layer in (options, *arguments):
        for name in _SOURCES:
            value = getattr(layer, name)
            if isinstance(value, Mapping):  # mappings merge entry by entry
                _set_unchecked(merged, name, {**getattr(merged, name), **value})
            elif value is not None:
                _set_unchecked(merged, name, value)
    values: dict[str, Any] = {}
    for name, source in _SOURCES.items():
        checked = source.checked(name, getattr(merged, name))
        if checked is not None:
            values[name] = checked
    if not values.keys() >= _FOLDERS:
        values = {**_default_folders(values.get("home")), **values}
    return Settings(**values)


def _set_unchecked(layer: Options, name: str, value: object) -> None:
    """Set a value that a later layer may replace, so that it must not raise."""
    object.__setattr__(layer, name, value)


def _from_environment(environ: Mapping[str, str]) -> Options:
    """Read every variable that is set and not empty."""
    texts = {
        name: text.strip()
        for name, text in environ.items()
        if name.startswith("WEBDATA_") and text.strip()
    }
    from_variables = Options()
    for setting, source in _SOURCES.items():
        variable = source.variable
        if variable is not None and variable in texts:
            text = texts.pop(variable)
            parsed = source.parse(variable, text) if source.parse else text
            _set_unchecked(from_variables, setting, parsed)
    if texts:  # the variables of engines, providers and language models
        # What a variable says of a provider is checked where it is used, and named there.
        search: dict[str, dict[str, Any]] = {}
        llm: dict[str, dict[str, Any]] = {}
        for name, text in texts.items():
            if (named := variables.provider_variable(name)) is not None:
                group = llm if named.llm else search
                value = variables.provider_value(name, named, text)
                group.setdefault(named.provider, {})[named.part] = value
        providers = {name: Provider(**parts) for name, parts in search.items()}
        models = {name: LanguageModel(**parts) for name, parts in llm.items()}
        engines = dict(variables.engine_providers(texts).items())
        _set_unchecked(from_variables, "engines", engines)
        _set_unchecked(from_variables, "providers", providers)
        _set_unchecked(from_variables, "llm", models)
    return from_variables


def _default_folders(home: Path | None) -> dict[str, Path]:
    """Return the default folders, below `home` or where the system keeps such things."""
    if home is None:
        # Without HOME, and for a user whom the system does not know, they raise or are relative.
        with suppress(RuntimeError):
            data = platformdirs.user_data_path(_APP, appauthor=False)
            cache = platformdirs.user_cache_path(_APP, appauthor=False)
            if data.is_absolute() and cache.is_absolute():
                return {"data_dir": data / "data", "cache_dir": cache, "log_dir": data / "logs"}
        home = temporary_home()
    return {"data_dir": home / "data", "cache_dir": home / "cache", "log_dir": home / "logs"}


def _shows_full_traceback() -> bool:
    try:
        return current().tracebacks == "full"
    except (ValueError, TypeError):  # the error on display may be about the settings
        return options.tracebacks == "full"


# Each display of an error reads this setting.
caller.DISPLAY.is_full = _shows_full_traceback
