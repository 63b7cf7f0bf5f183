"""Lists the search providers, the engines that use them, and their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.fields import http_url
from webdata_nb.contract.local import Access, SessionSettings
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.search.chain import LOCAL
from webdata_nb.service.search.providers.api import SearchApi, SearchProvider
from webdata_nb.service.search.providers.ddgs import BACKENDS, DdgsApi, DdgsProvider
from webdata_nb.service.search.providers.http_provider import HttpProvider, ProviderQueues
from webdata_nb.service.search.providers.web_apis import WEB_APIS
from webdata_nb.service.web.fetch import Fetcher

APIS: Final[dict[str, SearchApi]] = {
    api.name: api for api in (*WEB_APIS, *(DdgsApi(backend) for backend in BACKENDS))
}
# Each engine prefers one index: Google's, those of Brave and Bing, or independent ones. Several
# general providers of each engine need no key. An encyclopaedia follows them.
DEFAULT_ENGINES: Final[dict[str, tuple[str, ...]]] = {
    "engine_one": (
        "searxng",
        "serper",
        "brave",
        "tavily",
        "exa",
        "ddgs.startpage",
        "ddgs.duckduckgo",
        "ddgs.brave",
        "ddgs.mojeek",
        "marginalia",
        "mediawiki",
    ),
    "engine_two": (
        "brave",
        "ddgs.brave",
        "ddgs.duckduckgo",
        "ddgs.yahoo",
        "mojeek",
        "ddgs.mojeek",
        "mediawiki",
    ),
    "engine_three": (
        "mojeek",
        "ddgs.mojeek",
        "marginalia",
        "ddgs.brave",
        "ddgs.duckduckgo",
        "mediawiki",
    ),
}

_LOCAL_BEHIND_WEB: Final = (
    "it never answers instead of the web: name it before the providers of the web, or alone"
)


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """One entry of an engine's list; `problem` says what an unusable provider lacks."""

    engine: str
    position: int
    provider: str
    problem: str = ""

    @property
    def usable(self) -> bool:
        """Whether the provider can be used."""
        return not self.problem


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of search: provider lists by engine, and the providers' URLs and keys."""

    engines: Mapping[str, Sequence[str]]
    access: Mapping[str, Access]

    def access_to(self, provider: str) -> Access:
        """Return URL and key of a provider; environment variables have `_` instead of a dot."""
        return self.access.get(provider) or self.access.get(provider.replace(".", "_"), Access())

    def entries(self) -> list[ProviderEntry]:
        """Return every entry of every engine. Raises `JobFailure` for an unknown name."""
        entries: list[ProviderEntry] = []
        for engine in ENGINES:
            names = dict.fromkeys(self.engines.get(engine) or DEFAULT_ENGINES[engine])
            searches_web = False
            for position, name in enumerate(names, start=1):
                problem = missing_setting(name, self.access_to(name))
                if name == LOCAL and searches_web:
                    problem = _LOCAL_BEHIND_WEB
                searches_web = searches_web or not problem
                entries.append(ProviderEntry(engine, position, name, problem))
        return entries


def usable_providers(entries: Sequence[ProviderEntry]) -> dict[str, list[str]]:
    """Return each engine's list of usable providers."""
    lists: dict[str, list[str]] = {}
    for entry in entries:
        if entry.usable:
            lists.setdefault(entry.engine, []).append(entry.provider)
    return lists


def provider_summary(entries: Sequence[ProviderEntry]) -> dict[str, Any]:
    """Return the members of a reply that list usable and unusable providers."""
    usable = dict.fromkeys(entry.provider for entry in entries if entry.usable)
    unusable = {entry.provider: entry.problem for entry in entries if not entry.usable}
    return {"providers_usable": list(usable), "providers_unusable": unusable}


def merge_settings(operator: SessionSettings, session: Mapping[str, Any]) -> SearchSettings:
    """Override the operator's settings by those of a session, name by name."""
    session_settings = SessionSettings.model_validate(
        {name: session[name] for name in ("engines", "providers") if name in session}
    )
    engines: dict[str, Sequence[str]] = {}
    for layer in (operator, session_settings):
        engines.update({str(engine): names for engine, names in layer.engines.items()})
    return SearchSettings(engines, {**operator.providers, **session_settings.providers})


def missing_setting(provider: str, access: Access) -> str:
    """Return what a provider lacks, empty where it is usable."""
    if provider == LOCAL:
        return ""
    if provider not in APIS:
        known_providers = ", ".join((*APIS, LOCAL))
        raise JobFailure(f"unknown search provider {provider!r}; known: {known_providers}")
    api, variable = APIS[provider], provider.upper().replace(".", "_")
    if api.needs_key and not access.key:
        return f"no key: set WEBDATA_{variable}_KEY"
    if not (api.url or access.url or isinstance(api, DdgsApi)):
        return f"no address: set WEBDATA_{variable}_URL"
    if access.url is None:
        return ""
    try:
        parts = urlsplit(http_url(access.url.replace("{language}", "en")))
    except ValueError:
        return f"WEBDATA_{variable}_URL must be an http:// or https:// URL with a host"
    if parts.username is not None or parts.password is not None:
        return f"WEBDATA_{variable}_URL must have no user name or password"
    return ""


@dataclass(frozen=True, slots=True)
class ProviderCatalog:
    """Creates the providers of this process, which share their queues."""

    local: SearchProvider
    queues: ProviderQueues

    def open_providers(
        self,
        names: Iterable[str],
        settings: SearchSettings,
        fetcher_of: Callable[[str], Fetcher],
    ) -> dict[str, SearchProvider]:
        """Return providers by name, each with its settings and the fetcher of its address."""
        providers: dict[str, SearchProvider] = {}
        for name in names:
            if name == LOCAL:
                providers[name] = self.local
                continue
            api, access, others = APIS[name], settings.access_to(name), settings.access.values()
            fetcher = fetcher_of(access.url or "")
            providers[name] = (
                DdgsProvider(api, access, fetcher, self.queues, others=others)
                if isinstance(api, DdgsApi)
                else HttpProvider(api, access, fetcher, self.queues, others=others)
            )
        return providers
