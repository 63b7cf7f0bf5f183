"""Opens the web archives of a service: their addresses are settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from webdata_nb.contract.choices import ArchiveSource
from webdata_nb.contract.fields import http_url
from webdata_nb.contract.local import Access
from webdata_nb.service.archives import common_crawl, wayback
from webdata_nb.service.archives.archive_client import ArchiveClient
from webdata_nb.service.archives.common_crawl import CommonCrawl, CrawlIndexList
from webdata_nb.service.archives.wayback import WaybackMachine
from webdata_nb.service.archives.web_archive import WebArchive
from webdata_nb.service.errors import MissingSetting
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.throttle import Throttle

NAMES: Final[Mapping[ArchiveSource, str]] = {
    "wayback": "the Wayback Machine",
    "commoncrawl": "Common Crawl",
}
_ADDRESSES: Final[Mapping[str, str]] = {
    "wayback": wayback.ADDRESS,
    "commoncrawl": common_crawl.INDEX_ADDRESS,
    "commoncrawl_data": common_crawl.DATA_ADDRESS,
}


@dataclass(frozen=True, slots=True)
class WebArchives:
    """The archives that jobs and requests of a process ask."""

    lists: CrawlIndexList = field(default_factory=CrawlIndexList)

    def open(
        self,
        source: ArchiveSource,
        access: Callable[[str], Access],
        fetcher_for: Callable[[str], Fetcher],
        throttle: Throttle,
        *,
        patience_s: float | None = None,
    ) -> WebArchive:
        """Return an archive.

        Parameters
        ----------
        source
            Which one.
        access
            Returns the settings of a name: `wayback`, `commoncrawl` or `commoncrawl_data`.
        fetcher_for
            Returns the fetcher for an address in the settings.
        throttle
            Spaces the requests of all jobs.
        patience_s
            How long a request waits for pauses; by default as long as jobs wait.

        Raises
        ------
        MissingSetting
            An address in the settings is no URL.
        """
        address = _address(source, access)
        client = ArchiveClient(NAMES[source], fetcher_for(address), throttle)
        if patience_s is not None:
            client = replace(client, patience_s=patience_s)
        if source == "wayback":
            return WaybackMachine(client, address)
        return CommonCrawl(client, self.lists, address, _address("commoncrawl_data", access))


def _address(name: str, access: Callable[[str], Access]) -> str:
    url = access(name).url
    if url is None:
        return _ADDRESSES[name]
    try:
        return http_url(url).rstrip("/")
    except ValueError:
        raise MissingSetting(
            f"WEBDATA_{name.upper()}_URL must be an http:// or https:// URL"
        ) from None
