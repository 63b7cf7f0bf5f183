"""Which source a call asks, by the settings of its session or server."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from webdata_nb.contract.local import SOURCES, Creatives
from webdata_nb.service.creatives import google, meta, sample
from webdata_nb.service.creatives.source import Source
from webdata_nb.service.creatives.source_client import (
    OVERLOAD_PAUSE_S,
    CallDeadline,
    SourceClient,
    SourceFetchers,
)
from webdata_nb.service.errors import MissingSetting
from webdata_nb.service.web.throttle import HostThrottle, Throttle

_CHOICE: Final = (
    "no source of creatives is chosen: set creatives_source (WEBDATA_CREATIVES_SOURCE) to "
    f"{' or '.join(SOURCES)}; the sample's advertisers, {' and '.join(sample.advertiser_ids())}, "
    "need no setting"
)
_TERMS: Final = (
    f"{google.NAME} is not an official interface, and its terms ({google.TERMS}) allow use for "
    "information and research only: set creatives_terms (WEBDATA_CREATIVES_TERMS) to that "
    "address to say that you accept them"
)
_TOKEN: Final = (
    f"{meta.NAME} needs the token of a confirmed account ({meta.TERMS}): set "
    "WEBDATA_META_AD_LIBRARY_KEY, or providers['meta_ad_library']"
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Makes the source of a call. `delay_s` is the least time between two requests to Google."""

    throttle: Throttle = field(default_factory=HostThrottle)
    delay_s: float = google.PACE_S
    overload_pause_s: float = OVERLOAD_PAUSE_S

    def of(self, chosen: Creatives, fetchers: SourceFetchers, deadline: CallDeadline) -> Source:
        """Return the chosen source; raises `MissingSetting` where something is missing."""
        match chosen.source:
            case sample.NAME:
                return sample.Sample(datetime.now(UTC).date())
            case google.NAME:
                return self._google(chosen, fetchers, deadline)
            case meta.NAME:
                return self._meta(chosen, fetchers, deadline)
        raise MissingSetting(_CHOICE)

    def _google(
        self, chosen: Creatives, fetchers: SourceFetchers, deadline: CallDeadline
    ) -> Source:
        if (chosen.terms or "").rstrip("/") != google.TERMS:
            raise MissingSetting(_TERMS)
        client = SourceClient(
            google.NAME, fetchers, self.throttle, deadline, self.delay_s, self.overload_pause_s
        )
        return google.Google(client, (chosen.url or google.HOME).rstrip("/"))

    def _meta(self, chosen: Creatives, fetchers: SourceFetchers, deadline: CallDeadline) -> Source:
        if not chosen.key:
            raise MissingSetting(_TOKEN)
        client = SourceClient(
            meta.NAME, fetchers, self.throttle, deadline, 0.0, self.overload_pause_s
        )
        return meta.Meta(client, chosen.key, (chosen.url or meta.HOME).rstrip("/"))
