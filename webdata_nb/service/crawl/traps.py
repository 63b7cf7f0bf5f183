"""Detects crawler traps: URLs without end, and endless series of similar pages. Pure.

Some traps show in the URL: it repeats segments or carries a session id. Others show in the pages:
page after page with the same URL pattern and the same text, each with links to new URLs. Both
conditions are needed: a catalogue has many similar pages that link to nothing new, and a long
thread links on but has new text on each page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from webdata_nb.service.crawl.checkpoint import Packed, StateReader, StateWriter
from webdata_nb.service.crawl.facets import split_query
from webdata_nb.service.crawl.fingerprints import hash64, similarity
from webdata_nb.service.runtime.steps import Steps

MAX_URL_CHARACTERS: Final = 2000
MAX_SEGMENTS: Final = 30
MAX_PARAMETERS: Final = 30
# New URLs taken from one page: more than ten times what a crawl can fetch.
MAX_LINKS_PER_PAGE: Final = 10_000
# Similar pages in a row before their URL pattern is closed.
MAX_SIMILAR_PAGES: Final = 32
TRAP_SIMILARITY: Final = 0.9
# Similar pages in a row before their links are looked at.
_SUSPICIOUS_PAGES: Final = 4
# Repetitions in a path that make a trap: of one segment, and of a group of segments.
_MAX_SEGMENT_REPEATS: Final = 4
_MAX_GROUP_REPEATS: Final = 3
_MAX_GROUP_SEGMENTS: Final = 4
_NUMBER_OR_ID: Final = re.compile(r"[0-9a-f]{8}(?:[0-9a-f-]*[0-9a-f])?|\d+", re.IGNORECASE)
_SESSION_ID: Final = re.compile(
    r";jsessionid=[^/?#]*|/\([A-Z]\([^()/]*\)\)|"
    r"(?<=[?&])(?:phpsessid|jsessionid|aspsessionid\w*|sessionid|session_id|sessid|oscsid|zenid|"
    r"cfid|cftoken)=[^&]*&?",
    re.IGNORECASE,
)


def url_pattern(url: str) -> str:
    """Return a URL with numbers and hexadecimal ids masked as `#`, and its query by names only.

    Consecutive masked folders count as one, however deep they go.
    """
    path, parameters = split_query(url)
    scheme, _, host_and_path = path.partition("://")
    host, *segments = host_and_path.split("/")
    masked: list[str] = []
    for segment in segments:
        mask = _NUMBER_OR_ID.sub("#", segment)
        if mask != "#" or masked[-1:] != ["#"]:
            masked.append(mask)
    names = "&".join(sorted({parameter.name for parameter in parameters}))
    return f"{scheme}://{host}/{'/'.join(masked)}{'?' if names else ''}{names}"


def without_session(url: str) -> str:
    """Return a URL without the session ids that common servers put there."""
    return _SESSION_ID.sub("", url).rstrip("?&")


class SimilarPages(Struct, array_like=True):
    """A series of similar pages: the first, their number, and how many linked to new URLs.

    `shape` is that of the first page, where later pages are compared with it.
    """

    url: str
    shape: bytes = b""
    count: int = 0
    with_new_links: int = 0

    @property
    def is_endless(self) -> bool:
        """Whether the series is long and most of its pages linked to new URLs."""
        suspicious = self.count - _SUSPICIOUS_PAGES
        return self.count >= MAX_SIMILAR_PAGES and 2 * self.with_new_links >= suspicious


class TrapState(Struct, array_like=True):
    """The state of a `TrapDetector`: the items of its dictionaries."""

    sessions: Packed
    patterns: Packed
    shapes: Packed
    closed: Packed


class TrapDetector:
    """Learns the traps of a crawl's sites, in the order of the crawl."""

    def __init__(self) -> None:
        self._urls_by_session = dict[str, str]()
        self._series_by_pattern = dict[str, SimilarPages]()
        # By the hash of the shape: most pages of a large site begin a series of their own.
        self._series_by_shape = dict[int, SimilarPages]()
        self._closed_patterns = dict[str, str]()

    def state(self, writer: StateWriter) -> Steps[TrapState]:
        """Return the state."""
        return TrapState(
            (yield from writer.pack(self._urls_by_session.items())),
            (yield from writer.pack(self._series_by_pattern.items())),
            (yield from writer.pack(self._series_by_shape.items())),
            (yield from writer.pack(self._closed_patterns.items())),
        )

    def restore(self, reader: StateReader, state: TrapState) -> Steps[None]:
        """Continue from an earlier state."""
        yield from reader.unpack(state.sessions, tuple[str, str], self._urls_by_session.update)
        yield from reader.unpack(
            state.patterns, tuple[str, SimilarPages], self._series_by_pattern.update
        )
        yield from reader.unpack(
            state.shapes, tuple[int, SimilarPages], self._series_by_shape.update
        )
        yield from reader.unpack(state.closed, tuple[str, str], self._closed_patterns.update)

    def trap_of_url(self, url: str, is_known: Callable[[str], bool]) -> str | None:
        """Describe the trap that a new URL belongs to, or return None.

        `is_known` returns whether the crawl has discovered a URL before.
        """
        if len(url) > MAX_URL_CHARACTERS:
            return f"a URL of {len(url)} characters"
        if "jsessionid" in url or "(" in url or "?" in url:
            sessionless = without_session(url)
            if sessionless != url:
                first_url = (
                    sessionless
                    if is_known(sessionless)
                    else self._urls_by_session.setdefault(sessionless, url)
                )
                if first_url != url:
                    return f"session id: the page is {first_url}"
        if url.count("/") >= _MAX_SEGMENT_REPEATS + 2 and (trap := _trap_in_path(url)) is not None:
            return trap
        if url.count("&") >= MAX_PARAMETERS:
            return f"a query of {url.count('&') + 1} parameters"
        return self._closed_patterns.get(url_pattern(url)) if self._closed_patterns else None

    def trap_of_page(
        self, url: str, shape: bytes, new_links: Callable[[], Iterable[str]]
    ) -> str | None:
        """Record a page, and describe the trap that it belongs to, or return None.

        `new_links` returns its links to URLs that are not known yet. It is only called for pages
        that are similar to earlier ones.
        """
        if not shape:
            return None
        pattern = url_pattern(url)
        same_pattern = self._series_by_pattern.get(pattern)
        if same_pattern is None or similarity(same_pattern.shape, shape) < TRAP_SIMILARITY:
            same_pattern = self._series_by_pattern[pattern] = SimilarPages(url, shape)
        same_shape = self._series_by_shape.setdefault(hash64(shape), SimilarPages(url))
        trapped = same_pattern.is_endless or same_shape.is_endless
        suspicious = max(same_pattern.count, same_shape.count) >= _SUSPICIOUS_PAGES
        links = list(new_links()) if suspicious else []
        for series in (same_pattern, same_shape):
            series.count += 1
            series.with_new_links += bool(links)
        if same_pattern.is_endless and any(url_pattern(link) == pattern for link in links):
            self._closed_patterns.setdefault(
                pattern,
                f"{pattern}: {MAX_SIMILAR_PAGES} pages in a row say the same as {same_pattern.url}",
            )
        if not trapped:
            return None
        return self._closed_patterns.get(pattern) or f"soft 404: the text of {same_shape.url}"


def _trap_in_path(url: str) -> str | None:
    """Describe a path that is too long or repeats a group of segments."""
    segments = url.partition("?")[0].split("/")[3:]
    if len(segments) > MAX_SEGMENTS:
        return f"a path of {len(segments)} segments"
    for width in range(1, _MAX_GROUP_SEGMENTS + 1):
        repeats = _MAX_SEGMENT_REPEATS if width == 1 else _MAX_GROUP_REPEATS
        for start in range(len(segments) - width * repeats + 1):
            group = segments[start : start + width]
            if group[0] and segments[start : start + width * repeats] == group * repeats:
                return f"{'/'.join(group)} {repeats} times in one path"
    return None
