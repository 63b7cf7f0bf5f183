"""Defines the targets and results of a crawl, and encodes results as journal entries. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from webdata_nb.contract.outcomes import LinkOutcome
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.compression import zstd
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.store.records import JournalEntry

ResultKind = Literal["page", "failed", "robots", "rights", "stopped", "not_archived"] | LinkOutcome
ClaimCheck = Literal["", "unchanged", "verified", "contradicted"]
"""Whether the site called a page unchanged, and what a full request then found."""
_CHECKS: Final = frozenset(get_args(ClaimCheck))
# What belongs to a visit: the validators of a reply may differ although its page is the same.
_OF_VISIT: Final = ("etag", "last_modified", "release", "check")


class CrawlTarget(Struct, frozen=True, array_like=True):
    """A URL that may be fetched, first as a candidate of the frontier.

    Attributes
    ----------
    url, depth
        The URL, and its link depth from the start page.
    other_key
        The key of the URL where it is not the URL itself.
    score
        The importance that best first gave it.
    ordinal
        Its position in the order of the crawl; -1 until the plan has popped it.
    """

    url: str
    depth: int
    other_key: str | None = None
    score: float | None = None
    ordinal: int = -1

    @property
    def key(self) -> str:
        """URLs with equal keys are spellings of one URL."""
        return self.other_key or self.url


class CrawlResult(Struct, frozen=True, omit_defaults=True):
    """The result of a target: all that the plan needs, also in a replay after a kill.

    Attributes
    ----------
    kind
        A ``page``; ``failed``, with `reason` and `detail`; excluded by ``robots``; refused by
        ``rights``, with the rule as `reason`; ``stopped`` at a redirect to `final_url`, which is
        excluded because of `reason`; ``not_archived``, with `detail`; or the outcome of a link
        that was checked (`link_check`), which is no target of the plan.
    final_url
        The URL that answered, after redirects.
    reason
        The kind of a failure, the refusal of robots.txt, or why a redirect was not followed.
    detail
        The message of a failure.
    content_hash
        The hash of the page's content.
    links
        The canonical URLs that the page links to.
    anchor_grades
        One digit for each link, where the strategy weighs links (`frontier.anchor_grades`).
    nofollow_links
        The indices of the links marked `rel=nofollow`.
    nofollow_page
        Whether a robots directive of the page marks all of its links nofollow.
    canonical
        The URL that the page declares canonical.
    sketch
        The sketch of its text (`content.minhash`).
    shape
        The sketch of its text with numbers and dates masked.
    hops
        The number of redirects followed.
    check
        Of a page that the site called unchanged: the outcome of its row.
    was_requested
        False if the rights of the page were refused before a request, or if the index of an archive
        lacks it.
    is_unanswered
        Whether a request failed without an HTTP status.
    low_confidence
        The kind of reason why the confidence in the page's content is low; empty where it is not.
    url
        The URL of the target, once the result is stored.
    text
        What the local index stores of a page whose row has no Markdown.
    facts
        Those of the visit, for an audit (`visit_facts.page_facts`).
    etag, last_modified
        The validators of the reply; empty where it has none that can be relied on.
    release
        The release that scraped the page: another one may scrape it differently.
    """

    kind: ResultKind
    final_url: str
    reason: str = ""
    detail: str = ""
    content_hash: str | None = None
    links: tuple[str, ...] = ()
    anchor_grades: str = ""
    nofollow_links: tuple[int, ...] = ()
    nofollow_page: bool = False
    canonical: str | None = None
    sketch: bytes = b""
    shape: bytes = b""
    hops: int = 0
    check: ClaimCheck = ""
    was_requested: bool = True
    is_unanswered: bool = False
    low_confidence: str = ""
    url: str = ""
    text: str | None = None
    facts: dict[str, Any] = {}
    etag: str = ""
    last_modified: str = ""
    release: str = ""


_decoder: Final = msgspec.json.Decoder(CrawlResult)
_visit_decoder: Final = msgspec.json.Decoder(dict[str, str])


def encode_entry(
    target: CrawlTarget, result: CrawlResult, *, charged: tuple[str, ...] = ()
) -> JournalEntry:
    """Return the journal entry of a target, without its row.

    The journal is the same for each visit of an unchanged page, so that the store can share it.
    Links to the page's own site are paths in it. What belongs to the visit is stored beside it.
    """
    visit = {name: value for name in _OF_VISIT if (value := getattr(result, name))}
    origin = _origin(result.final_url)
    prefix, length = f"{origin}/", len(origin)
    links = tuple([url[length:] if url.startswith(prefix) else url for url in result.links])
    shared = replace(result, url=target.url, links=links, **dict.fromkeys(visit, ""))
    return JournalEntry(
        target.ordinal,
        target.url,
        success=result.kind == "page",
        journal=msgspec.json.encode(shared),
        charged=charged,
        visit=msgspec.json.encode(visit).decode() if visit.keys() - {"release"} else None,
    )


def decode_entry(journal: bytes, visit: str | None = None) -> CrawlResult:
    """Return the result of an entry; without its visit, what belongs to that is empty."""
    result = _decoder.decode(journal)
    origin, fields = _origin(result.final_url), _fields_of_visit(visit)
    links = tuple([f"{origin}{url}" if url[0] == "/" else url for url in result.links])
    return replace(result, links=links, **{name: fields.get(name, "") for name in _OF_VISIT})


def has_validators(visit: str | None, *, release: str) -> bool:
    """Return whether a server can be asked if the page of a visit has changed.

    Not if another release than this one scraped the page.
    """
    fields = _fields_of_visit(visit)
    is_usable = bool(fields.get("etag") or fields.get("last_modified"))
    return is_usable and fields.get("release") == release


def _fields_of_visit(visit: str | None) -> dict[str, str]:
    """Return what is stored of a visit; nothing of one of a later release that is not known."""
    fields = {} if visit is None else _visit_decoder.decode(visit)
    return fields if fields.get("check", "") in _CHECKS else {}


def _origin(url: str) -> str:
    """Return a canonical URL up to its path."""
    return "/".join(url.split("/", 3)[:3])


# Encodes the state of a crawl plan as one record, from which a later attempt continues. Pure.
#
# Each part of the plan has a struct with its state. Long collections are written behind each other
# in chunks, each encoded and compressed in one step of some milliseconds; the structs, which have
# the places of the chunks, follow them. A record that is damaged, or of another version, is not
# used: the crawl then replays its journal, from which the state follows.


VERSION: Final = 4
ITEMS_PER_CHUNK: Final = 1000
_LEVEL: Final = 3
# The size of the structs, and the checksum of all before it.
_SIZE_BYTES: Final = 4
_CHECKSUM_BYTES: Final = 4

Packed: TypeAlias = list[tuple[int, int]]
"""A collection: where each chunk of its items begins and ends in the record."""
Item = TypeVar("Item")
State = TypeVar("State")


class UnusableState(ApplicationError):
    """The stored state of a crawl is damaged, or of another version."""


class StateWriter:
    """Writes a state without a second copy of it in memory."""

    def __init__(self) -> None:
        self._record = bytearray()

    def pack(self, items: Iterable[Any]) -> Steps[Packed]:
        """Write a collection."""
        iterator, places = iter(items), Packed()
        while chunk := list(islice(iterator, ITEMS_PER_CHUNK)):
            places.append(self.write(pack_chunk(chunk)))
            yield
        return places

    def write(self, chunk: bytes) -> tuple[int, int]:
        """Write a chunk; return its place."""
        start = len(self._record)
        self._record += chunk
        return start, len(self._record)

    def end(self, state: Any) -> bytearray:
        """Return the record of a state whose collections were written."""
        head = msgspec.msgpack.encode((VERSION, state))
        self._record += head
        self._record += len(head).to_bytes(_SIZE_BYTES)
        self._record += crc32(self._record).to_bytes(_CHECKSUM_BYTES)
        return self._record


class StateReader:
    """Reads the record of a state."""

    def __init__(self, record: bytes | bytearray) -> None:
        self._record = memoryview(record)

    def state(self, state_type: type[State]) -> State:
        """Return the state.

        Raises
        ------
        UnusableState
            The record is damaged, or of another version.
        """
        body, checksum = self._record[:-_CHECKSUM_BYTES], self._record[-_CHECKSUM_BYTES:]
        if not body or crc32(body) != int.from_bytes(checksum):
            raise UnusableState("the state of the crawl is damaged")
        end = len(body) - _SIZE_BYTES
        head = body[end - int.from_bytes(body[end:]) : end]
        version, state = msgspec.msgpack.decode(head, type=tuple[int, msgspec.Raw])
        if version != VERSION:
            raise UnusableState(f"the state of the crawl is not of version {VERSION}")
        return msgspec.msgpack.decode(state, type=state_type)

    def unpack(
        self, places: Packed, item_type: type[Item], add: Callable[[list[Item]], object]
    ) -> Steps[None]:
        """Pass the items of each chunk to `add`."""
        for place in places:
            add(unpack_chunk(self.read(place), item_type))
            yield

    def read(self, place: tuple[int, int]) -> bytes:
        """Return a chunk."""
        start, end = place
        return bytes(self._record[start:end])


def pack_chunk(items: Sequence[Any]) -> bytes:
    """Return items as one chunk."""
    return zstd.compress(msgspec.msgpack.encode(items), _LEVEL)


def unpack_chunk(chunk: bytes, item_type: type[Item]) -> list[Item]:
    """Return the items of a chunk."""
    return msgspec.msgpack.decode(zstd.decompress(chunk), type=list[item_type])  # type: ignore[valid-type]
