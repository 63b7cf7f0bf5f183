"""Addresses without end, and how they are told from a large site. Pure.

Some traps show in the URL: it repeats itself, or carries a session. The others show in what they
bring: page after page of one pattern with one text, each leading to more of them. An ordinary
site does neither; a long list of like pages is no trap while they lead nowhere new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from webdata_nb.service.crawl.query_string import split_query
from webdata_nb.service.crawl.similarity import similarity

MAX_CHARS: Final = 2000
MAX_SEGMENTS: Final = 30
MAX_PARAMETERS: Final = 30
# New URLs taken from one page: more than ten times what a crawl can fetch.
MAX_LINKS_PER_PAGE: Final = 10_000
# Pages of one pattern and one text, one after the other, before the pattern is closed.
MAX_SIMILAR_PAGES: Final = 32
TRAP_SIMILARITY: Final = 0.9
# From how many like pages on it is looked whether they lead to more of their kind.
_DOUBT: Final = 4
_ALONE: Final = 4
_TOGETHER: Final = 3
_LONGEST_GROUP: Final = 4
_COUNTED: Final = re.compile(r"[0-9a-f]{8}(?:[0-9a-f-]*[0-9a-f])?|\d+", re.IGNORECASE)
_SESSION: Final = re.compile(
    r";jsessionid=[^/?#]*|/\([A-Z]\([^()/]*\)\)|"
    r"(?<=[?&])(?:phpsessid|jsessionid|aspsessionid\w*|sessionid|session_id|sessid|oscsid|zenid|"
    r"cfid|cftoken)=[^&]*&?",
    re.IGNORECASE,
)


def url_pattern(url: str) -> str:
    """Return a URL with what counts masked: numbers and hexadecimal ids as `#`, queries by name.

    Folders that only count are one, however deep they go.
    """
    path, parameters = split_query(url)
    head, _, rest = path.partition("://")
    host, *segments = rest.split("/")
    masked: list[str] = []
    for segment in segments:
        mask = _COUNTED.sub("#", segment)
        if mask != "#" or masked[-1:] != ["#"]:
            masked.append(mask)
    names = "&".join(sorted({each.name for each in parameters}))
    return f"{head}://{host}/{'/'.join(masked)}{'?' if names else ''}{names}"


def without_session(url: str) -> str:
    """Return a URL without the ids of sessions that servers are known to put there."""
    return _SESSION.sub("", url).rstrip("?&")


@dataclass(slots=True)
class SimilarPages:
    """Like pages in a row: the first of them, how many, and how many led to more."""

    url: str
    shape: bytes
    length: int = 0
    bred: int = 0

    @property
    def endless(self) -> bool:
        """Whether there are too many of them and most led to new URLs."""
        return self.length >= MAX_SIMILAR_PAGES and 2 * self.bred >= self.length - _DOUBT


class TrapDetector:
    """What the crawl has learnt of a site's traps, in the order of the crawl."""

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}
        self._patterns: dict[str, SimilarPages] = {}
        self._texts: dict[bytes, SimilarPages] = {}
        self._closed: dict[str, str] = {}

    def verdict(self, url: str, is_known: Callable[[str], bool]) -> str | None:
        """Return which trap a new URL belongs to, or None; `is_known` tells of URLs met before."""
        if len(url) > MAX_CHARS:
            return f"a URL of {len(url)} characters"
        if "jsessionid" in url or "(" in url or "?" in url:
            bare = without_session(url)
            if bare != url:
                known = bare if is_known(bare) else self._sessions.setdefault(bare, url)
                if known != url:
                    return f"session id: the page is {known}"
        if url.count("/") >= _ALONE + 2 and (found := _repeated(url)) is not None:
            return found
        if url.count("&") >= MAX_PARAMETERS:
            return f"a query of {url.count('&') + 1} parameters"
        return self._closed.get(url_pattern(url)) if self._closed else None

    def read(self, url: str, shape: bytes, links: Callable[[], Iterator[str]]) -> str | None:
        """Take note of a page; return which trap it belongs to, or None.

        `links` gives where it leads that is new; it is asked only once there is doubt.
        """
        if not shape:
            return None
        kind = url_pattern(url)
        row = self._patterns.get(kind)
        if row is None or similarity(row.shape, shape) < TRAP_SIMILARITY:
            row = self._patterns[kind] = SimilarPages(url, shape)
        text = self._texts.setdefault(shape, SimilarPages(url, shape))
        trapped = row.endless or text.endless
        new = list(links()) if max(row.length, text.length) >= _DOUBT else []
        for series in (row, text):
            series.length += 1
            series.bred += bool(new)
        if (
            row.endless
            and kind not in self._closed
            and any(url_pattern(each) == kind for each in new)
        ):
            self._closed[kind] = (
                f"{kind}: {MAX_SIMILAR_PAGES} pages in a row say the same as {row.url}"
            )
        if not trapped:
            return None
        return self._closed.get(kind) or f"soft 404: the text of {text.url}"


def _repeated(url: str) -> str | None:
    """Find folders that come again and again, one behind the other."""
    segments = url.partition("?")[0].split("/")[3:]
    if len(segments) > MAX_SEGMENTS:
        return f"a path of {len(segments)} segments"
    for width in range(1, _LONGEST_GROUP + 1):
        times = _ALONE if width == 1 else _TOGETHER
        for start in range(len(segments) - width * times + 1):
            group = segments[start : start + width]
            if group[0] and segments[start : start + width * times] == group * times:
                return f"{'/'.join(group)} {times} times in one path"
    return None
