"""Reads what the headers and the elements of one page say about its use. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from webdata_nb.contract.choices import PURPOSES
from webdata_nb.page.content.parsed_page import PageDeclaration
from webdata_nb.page.errors import FetchError
from webdata_nb.page.link_header import parse_link_header
from webdata_nb.page.urls import join_url
from webdata_nb.service.crawl.rights.rsl import MEDIA_TYPE, parse_rsl
from webdata_nb.service.crawl.rights.signal import RightsSignal, Says, refuses
from webdata_nb.service.crawl.rights.tdm import tdm_reservation
from webdata_nb.service.crawl.rights.usage_values import (
    content_signal,
    content_usage,
    robots_directives,
)

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LicenseReference:
    """A declaration of an RSL licence at another URL."""

    url: str
    line: str
    source: str

    def unread(self, read_at: str, problem: str, says: Says = MappingProxyType({})) -> RightsSignal:
        """Return the signal of a licence that is not read."""
        return RightsSignal("rsl", self.source, self.line, read_at, says, problem=problem)


@dataclass(frozen=True, slots=True)
class PageSignals:
    """Reads the signals of one page.

    Attributes
    ----------
    url
        The final URL of the page.
    read_at
        When it was read, in ISO 8601.
    token
        The name by which robots directives address this crawler.
    """

    url: str
    read_at: str
    token: str

    def of_headers(self, headers: Headers) -> Iterator[RightsSignal]:
        """Yield the signals of the response's headers, except RSL licences."""
        # A structured field is the list of all its lines.
        if usage := ", ".join(_values(headers, "content-usage")):
            yield self._signal("content-usage", f"Content-Usage: {usage}", content_usage(usage))
        for value in _values(headers, "content-signal"):
            line = f"Content-Signal: {value}"
            yield self._signal("content-signal", line, content_signal(value))
        for value in _values(headers, "x-robots-tag"):
            if says := robots_directives(value, self.token):
                yield self._signal("robots-tag", f"X-Robots-Tag: {value}", says)
        for value in _values(headers, "tdm-reservation"):
            yield self._signal("tdm", f"tdm-reservation: {value}", tdm_reservation(value))
        for target, media_type in _license_links(headers):
            if media_type != MEDIA_TYPE:
                yield self._signal("license", f'Link: <{target}>; rel="license"', {})

    def of_declarations(self, declarations: Sequence[PageDeclaration]) -> Iterator[RightsSignal]:
        """Yield the signals of the page's elements, except RSL licences at other URLs."""
        for kind, name, value in declarations:
            line = f'<meta name="{name}" content="{value}">'
            if kind == "rsl":
                line = f'<script type="{MEDIA_TYPE}">'
                yield from parse_rsl(value.encode()).signals(self.url, self.url, line, self.read_at)
            elif kind == "link":
                if value != MEDIA_TYPE:
                    yield self._signal("license", f'rel="license" href="{name}"', {})
            elif kind == "unread":
                line = "more declarations than are read"
                yield self._signal("license", line, refuses(*PURPOSES))
            elif name == "tdm-reservation":
                yield self._signal("tdm", line, tdm_reservation(value))
            elif name in {"robots", self.token.lower()} and (
                says := robots_directives(value, self.token)
            ):
                yield self._signal("robots-tag", line, says)

    def licenses(
        self, headers: Headers, declarations: Sequence[PageDeclaration]
    ) -> Iterator[LicenseReference]:
        """Yield the RSL licences at other URLs that the page declares."""
        for target, media_type in _license_links(headers):
            url = self._absolute(target) if media_type == MEDIA_TYPE else None
            if url is not None:
                line = f'Link: <{target}>; rel="license"; type="{MEDIA_TYPE}"'
                yield LicenseReference(url, line, self.url)
        for kind, name, value in declarations:
            if kind == "link" and value == MEDIA_TYPE:
                line = f'rel="license" type="{MEDIA_TYPE}" href="{name}"'
                yield LicenseReference(name, line, self.url)

    def _absolute(self, target: str) -> str | None:
        try:
            return join_url(self.url, target)
        except FetchError:
            return None

    def _signal(self, name: str, line: str, says: Says) -> RightsSignal:
        return RightsSignal(name, self.url, line, self.read_at, says)


def _values(headers: Headers, wanted: str) -> list[str]:
    return [value for name, value in headers if name.lower() == wanted]


def _license_links(headers: Headers) -> Iterator[tuple[str, str]]:
    """Yield target and media type of each Link header's links with `rel=license`."""
    for value in _values(headers, "link"):
        for link in parse_link_header(value):
            if "license" in link.relations:
                yield link.target, link.media_type
