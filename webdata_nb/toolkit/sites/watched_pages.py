"""What one crawl of a watched site found: the fields of its pages, and outcomes of other URLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from webdata_nb.contract import outcomes
from webdata_nb.contract.choices import FORMAT_VALUES
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.frames import frame, receipt
from webdata_nb.toolkit.frames.compare import text_of
from webdata_nb.toolkit.frames.extracted import field_paths, pointer_of, value_at

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.contract.replies import ReceiptEntry
    from webdata_nb.contract.requests import Extract

FieldPath = tuple[str, ...]

_CONTENT_HASH: Final = "content_hash"
_DESCRIPTION: Final = "description"
_EXTRACT: Final = "extract"
# What every page has, whatever the request.
_OF_EVERY_PAGE: Final = ("title", _DESCRIPTION, _CONTENT_HASH)
# A screenshot differs in each run.
_FORMATS: Final[tuple[str, ...]] = tuple(
    name for name, value in FORMAT_VALUES.items() if value.type != "png"
)
# Often different although nothing visible changed: watched only where it is named.
_NOISY: Final = frozenset({"raw_html"})


@dataclass(frozen=True, slots=True)
class WatchedFields:
    """The fields that a call compares: columns of pages, and fields of `extract` by their paths."""

    columns: tuple[str, ...]
    extracted: Mapping[str, FieldPath]

    @classmethod
    def choose(
        cls, names: Sequence[str] | None, formats: Sequence[str], extract: Extract | None
    ) -> Self:
        """Return the fields with these names; those that a request gives by default.

        Raises
        ------
        InvalidArgument
            The request gives no such field; nothing was sent.
        """
        requested = [name for name in _FORMATS if name in formats]
        allowed = (*_OF_EVERY_PAGE, *requested)
        paths: dict[str, FieldPath] = {}
        if extract is not None:
            # Without a schema, `extract` is one field.
            of_schema = field_paths(extract.schema_) if extract.schema_ else []
            named = {".".join(path): path for path in of_schema}
            paths = {
                f"{_EXTRACT}.{name}" if name in allowed else name: path
                for name, path in named.items()
            } or {_EXTRACT: ()}
        if names is None:
            content = [name for name in requested if name not in _NOISY] or [_CONTENT_HASH]
            return cls(("title", _DESCRIPTION, *content), paths)
        known = (*allowed, *paths)
        for name in names:
            if name not in known:
                suggestion = did_you_mean(quoted(closest(name, known)))
                raise InvalidArgument(
                    "columns must be among what this call reads of a page (with formats and "
                    f"extract): {', '.join(known)}; {format_value(name)} is not{suggestion}"
                )
        chosen = dict.fromkeys(names)
        return cls(
            tuple(name for name in chosen if name in allowed),
            {name: paths[name] for name in chosen if name in paths},
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return (*self.columns, *self.extracted)

    def values(self, row: Mapping[str, Any]) -> dict[str, str | None]:
        """Return the values of a row as text."""
        values = {name: row.get(name) for name in self.columns}
        if _DESCRIPTION in values:
            values[_DESCRIPTION] = value_at(row, ("metadata", _DESCRIPTION))
        for name, path in self.extracted.items():
            values[name] = value_at(row.get(_EXTRACT), path)
        return {name: text_of(value) for name, value in values.items()}

    def quotes(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return where the page of a row has the extracted values: a quote, or their source."""
        details = value_at(row, ("metadata", _EXTRACT))
        found = {name: _quote(details, path) for name, path in self.extracted.items() if details}
        return {name: quote for name, quote in found.items() if quote}

    def rows(self, pages: pd.DataFrame) -> Iterator[dict[str, Any]]:
        """Yield the rows of a crawl with the columns that are needed."""
        wanted = {
            *("url", "success", "status_code", "error", _CONTENT_HASH, "fetched_at", "metadata"),
            *(name for name in self.columns if name != _DESCRIPTION),
            *((_EXTRACT,) if self.extracted else ()),
        }
        columns = [name for name in pages.columns if name in wanted]
        for row in frame.to_lists(pages[columns]):
            yield dict(zip(columns, row, strict=True))


def _quote(details: Mapping[str, Any], path: FieldPath) -> str:
    pointer = pointer_of(path)
    quote = value_at(details, ("evidence", "values", pointer, "quote"))
    source = value_at(details, ("provenance", pointer))
    return next((str(each) for each in (quote, source) if each), "")


# A crawl with such URLs has not seen every link, or not every page that a sitemap names.
_LEFT_OUT: Final = (
    outcomes.OVER_MAX_PAGES,
    "over_requests",
    "over_urls",
    outcomes.ROBOTS_UNREACHABLE,
    "sitemap",
    "llms_txt",
)
# URLs that are not pages of the site, or not part of the request.
_ELSEWHERE: Final = frozenset(
    {"scope", "folder", "filtered", "sitemap", "llms_txt", outcomes.DAMAGED_ARCHIVE}
)
_GONE: Final = frozenset({"failed:http_404", "failed:http_410"})
_COPIES: Final = frozenset({"duplicate", "canonical", "facet"})
_REDIRECTS: Final = "redirects to "
_MAX_REASON_CHARS: Final = 500


class SeenUrl(NamedTuple):
    """The outcome of a URL that is no page of a crawl, with its detail, as in the receipt."""

    outcome: str
    detail: str = ""

    @property
    def is_duplicate(self) -> bool:
        """Whether it has the content of the page in `detail`."""
        return self.outcome == "duplicate"

    @property
    def is_copy(self) -> bool:
        """Whether it is another address of a page. Which one is a row depends on the links."""
        return self.outcome in _COPIES

    @property
    def is_no_page(self) -> bool:
        """Whether the site says that there is no page of its own at this URL."""
        is_outside = self.outcome in {"scope", "folder"}
        redirects_elsewhere = is_outside and self.detail.startswith(_REDIRECTS)
        return self.outcome in _GONE or self.outcome == "redirect" or redirects_elsewhere

    @property
    def has_failed(self) -> bool:
        """Whether it could not be read, and may be another time."""
        return self.outcome.startswith(outcomes.FAILED) and not self.is_no_page

    @property
    def is_of_site(self) -> bool:
        """Whether it belongs to what the crawl was asked for."""
        return self.outcome not in _ELSEWHERE

    def reason(self) -> str:
        """Return what the site says, as a clause."""
        text = f"{_REDIRECTS}{self.detail}" if self.outcome == "redirect" else self.detail
        return (text or self.outcome)[:_MAX_REASON_CHARS]


@dataclass(frozen=True, slots=True)
class PageVersion:
    """A page as a crawl read it; `quotes` are the places of extracted values in it."""

    url: str
    final_url: str
    content_hash: str | None
    fetched_at: datetime
    job_id: str
    values: Mapping[str, str | None]
    quotes: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class SiteVisit:
    """One crawl of a site.

    Attributes
    ----------
    job_id, at
        The crawl, and when it ended.
    pages
        The pages that were read, in the order of the crawl.
    others
        Every other URL that the crawl saw.
    is_whole
        Whether no limit ended the crawl, and all of its links and sitemaps are known.
    """

    job_id: str
    at: datetime
    pages: tuple[PageVersion, ...]
    others: Mapping[str, SeenUrl]
    is_whole: bool

    @classmethod
    def of_crawl(
        cls, crawl: pd.DataFrame, entries: Iterable[ReceiptEntry] | None, fields: WatchedFields
    ) -> SiteVisit:
        """Return what a crawl found; `entries` are its full receipt, None if that is missing."""
        attrs = crawl.attrs[frame.ATTRS]
        job_id, at = str(attrs["job_id"]), receipt.finished_at(attrs)
        pages: list[PageVersion] = []
        others: dict[str, SeenUrl] = {}
        for row in fields.rows(crawl):
            if row["success"] is False:
                # In place of the receipt's, which may be missing.
                status = row["status_code"]
                outcome = f"failed:http_{status}" if status else "failed:"
                others[row["url"]] = SeenUrl(outcome, row["error"] or "")
                continue
            page = PageVersion(
                row["url"],
                value_at(row, ("metadata", "final_url")) or row["url"],
                row["content_hash"],
                row["fetched_at"] or at,
                job_id,
                fields.values(row),
                fields.quotes(row),
            )
            pages.append(page)
        read = {page.url for page in pages}
        others |= {e.url: SeenUrl(e.outcome, e.detail) for e in entries or () if e.url not in read}
        counts: Mapping[str, int] = attrs.get("receipt", {}).get("counts", {})
        is_cut = any(counts.get(name) for name in _LEFT_OUT)
        return cls(job_id, at, tuple(pages), others, entries is not None and not is_cut)
