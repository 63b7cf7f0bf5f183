"""Which providers there are, which of them each engine asks, and what one lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.fields import http_url
from webdata_nb.contract.local import Access, SessionSettings
from webdata_nb.service.errors import JobFailed
from webdata_nb.service.search.chain import ChainLink
from webdata_nb.service.search.index_groups import LOCAL
from webdata_nb.service.search.providers import ddgs
from webdata_nb.service.search.providers.api import SearchApi
from webdata_nb.service.search.providers.base import SearchProvider
from webdata_nb.service.search.providers.brave import Brave
from webdata_nb.service.search.providers.ddgs import DdgsApi, DdgsProvider
from webdata_nb.service.search.providers.endpoint import HttpProvider, ProviderQueues
from webdata_nb.service.search.providers.exa import Exa
from webdata_nb.service.search.providers.marginalia import Marginalia
from webdata_nb.service.search.providers.mediawiki import Mediawiki
from webdata_nb.service.search.providers.mojeek import Mojeek
from webdata_nb.service.search.providers.searxng import Searxng
from webdata_nb.service.search.providers.serper import Serper
from webdata_nb.service.search.providers.tavily import Tavily
from webdata_nb.service.web.addresses import is_local_host
from webdata_nb.service.web.fetch import Fetcher

_SEARCH_APIS: Final[tuple[SearchApi, ...]] = (
    Searxng(),
    Serper(),
    Brave(),
    Tavily(),
    Exa(),
    Mojeek(),
    Marginalia(),
    Mediawiki(),
    *(DdgsApi(backend) for backend in ddgs.BACKENDS),
)
APIS: Final = {api.name: api for api in _SEARCH_APIS}
# An engine stands for an index: Google's, Brave's and Bing's, independent ones. A source that
# knows nothing but an encyclopaedia is never first, and the pages crawled here come last.
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
        "marginalia",
        "mediawiki",
        LOCAL,
    ),
    "engine_two": (
        "brave",
        "ddgs.brave",
        "ddgs.duckduckgo",
        "ddgs.yahoo",
        "mojeek",
        "mediawiki",
        LOCAL,
    ),
    "engine_three": (
        "mojeek",
        "ddgs.mojeek",
        "marginalia",
        "mediawiki",
        "ddgs.duckduckgo",
        LOCAL,
    ),
}


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """One entry of an engine's list; `why` says what an unusable one lacks."""

    engine: str
    position: int
    provider: str
    why: str = ""

    @property
    def usable(self) -> bool:
        """Whether it can be asked."""
        return not self.why


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What settings say of search: lists by engine, and the providers' addresses and keys."""

    engines: Mapping[str, Sequence[str]]
    access: Mapping[str, Access]

    def of(self, provider: str) -> Access:
        """Return a provider's settings; variables have no dot in their names."""
        return self.access.get(provider) or self.access.get(provider.replace(".", "_"), Access())

    def entries(self) -> list[ProviderEntry]:
        """Return every entry of every engine. Raises `JobFailed` for an unknown name."""
        extra = ddgs.is_installed()
        return [
            ProviderEntry(
                engine,
                position,
                provider,
                missing_setting(provider, self.of(provider), extra=extra),
            )
            for engine in ENGINES
            for position, provider in enumerate(
                dict.fromkeys(self.engines.get(engine) or DEFAULT_ENGINES[engine]), start=1
            )
        ]


def usable_providers(entries: Sequence[ProviderEntry]) -> dict[str, list[str]]:
    """Return each engine's list without the entries that lack something."""
    lists: dict[str, list[str]] = {}
    for entry in entries:
        if entry.usable:
            lists.setdefault(entry.engine, []).append(entry.provider)
    return lists


def provider_summary(entries: Sequence[ProviderEntry]) -> dict[str, Any]:
    """Return what a reply says of providers: whom a search could ask, and what others lack."""
    whole = dict.fromkeys(entry.provider for entry in entries if entry.usable)
    lacking = {entry.provider: entry.why for entry in entries if not entry.usable}
    return {"providers_usable": list(whole), "providers_unusable": lacking}


def merge_settings(operator: SessionSettings, session: Mapping[str, Any]) -> SearchSettings:
    """Lay a session's settings, as a job keeps them, over the operator's, name by name."""
    told = SessionSettings.model_validate(
        {name: session[name] for name in ("engines", "providers") if name in session}
    )
    engines: dict[str, Sequence[str]] = {}
    for layer in (operator, told):
        engines.update({str(engine): names for engine, names in layer.engines.items()})
    return SearchSettings(engines, {**operator.providers, **told.providers})


def missing_setting(provider: str, access: Access, *, extra: bool) -> str:
    """Return what a provider lacks to be asked; empty where it lacks nothing."""
    if provider == LOCAL:
        return ""
    if provider not in APIS:
        known = ", ".join((*APIS, LOCAL))
        raise JobFailed(f"unknown search provider {provider!r}; known: {known}")
    api, variable = APIS[provider], provider.upper().replace(".", "_")
    if isinstance(api, DdgsApi) and not extra:
        return 'not installed: pip install "webdata_nb[search]"'
    if api.needs_key and not access.key:
        return f"no key: set WEBDATA_{variable}_KEY"
    if not (api.url or access.url or isinstance(api, DdgsApi)):
        return f"no address: set WEBDATA_{variable}_URL"
    return "" if access.url is None else _url_problem(access.url, variable)


def _url_problem(url: str, variable: str) -> str:
    try:
        parts = urlsplit(http_url(url.replace("{language}", "en")))
    except ValueError:
        return f"WEBDATA_{variable}_URL must be an http:// or https:// URL with a host"
    if parts.username is not None or parts.password is not None:
        return f"WEBDATA_{variable}_URL must have no user name or password"
    return ""


@dataclass(frozen=True, slots=True)
class ProviderCatalog:
    """The providers of this process, and the queues at them."""

    local: SearchProvider
    lines: ProviderQueues

    def open(
        self,
        links: Sequence[ChainLink],
        chosen: SearchSettings,
        fetcher: Fetcher,
        near: Fetcher | None = None,
    ) -> dict[str, SearchProvider]:
        """Return the providers that `links` name, each with its settings.

        `near` goes without a proxy to those on this machine or in its network.
        """
        opened: dict[str, SearchProvider] = {}
        for name in (link.provider for link in links):
            access = chosen.of(name)
            direct = near is not None and is_local_host(urlsplit(access.url or "").hostname or "")
            opened[name] = self._open(name, access, near if direct and near else fetcher)
        return opened

    def _open(self, name: str, access: Access, fetcher: Fetcher) -> SearchProvider:
        if name == LOCAL:
            return self.local
        api = APIS[name]
        if isinstance(api, DdgsApi):
            return DdgsProvider(api, access, fetcher, self.lines)
        return HttpProvider(api, access, fetcher, self.lines)
