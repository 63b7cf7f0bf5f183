"""Creates the source of creatives that the settings of a session or server select."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from webdata_nb.contract.local import SOURCES, Creatives
from webdata_nb.service.creatives import google, meta, sample
from webdata_nb.service.creatives.source import CreativesSource
from webdata_nb.service.creatives.source_client import (
    OVERLOAD_PAUSE_S,
    CallDeadline,
    SourceClient,
    SourceFetchers,
)
from webdata_nb.service.errors import MissingSetting
from webdata_nb.service.web.throttle import HostThrottle, Throttle

_NO_SOURCE: Final = (
    "no source of creatives is chosen: set creatives_source (WEBDATA_CREATIVES_SOURCE) to "
    f"{' or '.join(SOURCES)}; the sample's advertisers, {' and '.join(sample.advertiser_ids())}, "
    "need no setting"
)
_TERMS_NOT_ACCEPTED: Final = (
    f"{google.NAME} is not an official interface, and its terms ({google.TERMS}) allow use for "
    "information and research only: set creatives_terms (WEBDATA_CREATIVES_TERMS) to that "
    "address to say that you accept them"
)
_NO_TOKEN: Final = (
    f"{meta.NAME} needs the token of a confirmed account ({meta.TERMS}): set "
    "WEBDATA_META_AD_LIBRARY_KEY, or providers['meta_ad_library']"
)


@dataclass(frozen=True, slots=True)
class SourceFactory:
    """Creates a source for each call; `delay_s` is the least time between requests to Google."""

    throttle: Throttle = field(default_factory=HostThrottle)
    delay_s: float = google.MIN_DELAY_S
    overload_pause_s: float = OVERLOAD_PAUSE_S

    def create(
        self, settings: Creatives, fetchers: SourceFetchers, deadline: CallDeadline
    ) -> CreativesSource:
        """Return the selected source; raises `MissingSetting` if a setting is missing."""
        match settings.source:
            case sample.NAME:
                return sample.SampleSource(datetime.now(UTC).date())
            case google.NAME:
                return self._google(settings, fetchers, deadline)
            case meta.NAME:
                return self._meta(settings, fetchers, deadline)
        raise MissingSetting(_NO_SOURCE)

    def _google(
        self, settings: Creatives, fetchers: SourceFetchers, deadline: CallDeadline
    ) -> CreativesSource:
        if (settings.terms or "").rstrip("/") != google.TERMS:
            raise MissingSetting(_TERMS_NOT_ACCEPTED)
        client = SourceClient(
            google.NAME, fetchers, self.throttle, deadline, self.delay_s, self.overload_pause_s
        )
        return google.GoogleTransparencyCenter(client, (settings.url or google.HOME).rstrip("/"))

    def _meta(
        self, settings: Creatives, fetchers: SourceFetchers, deadline: CallDeadline
    ) -> CreativesSource:
        if not settings.key:
            raise MissingSetting(_NO_TOKEN)
        client = SourceClient(
            meta.NAME,
            fetchers,
            self.throttle,
            deadline,
            0.0,
            self.overload_pause_s,
            key=settings.key,
            key_advice=meta.KEY_ADVICE,
        )
        return meta.MetaAdLibrary(client, settings.key, (settings.url or meta.HOME).rstrip("/"))
