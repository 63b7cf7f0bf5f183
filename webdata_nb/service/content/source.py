"""What was fetched, and what is wanted of it: the two values that travel to a page worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from webdata_nb.service.content.parser import check_selector
from webdata_nb.service.errors import BadInput, ScrapeError

if TYPE_CHECKING:
    from datetime import datetime


PageFact: TypeAlias = Literal["metadata", "quality", "sketch", "shape"]
"""What is told of a page beside its title, formats and outlinks; each is described in `Scraped`."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The `size` bytes of a file from `start` on."""

    path: str
    start: int
    size: int

    def read(self) -> bytes:
        """Return them.

        Raises
        ------
        ScrapeError
            Of kind ``parse``, when they are not there any more.
        """
        try:
            with Path(self.path).open("rb", buffering=0) as file:
                file.seek(self.start)
                found = file.read(self.size)
        except OSError as error:
            raise ScrapeError("parse", f"the page's own file is gone ({error.strerror})") from None
        if len(found) != self.size:
            raise ScrapeError("parse", "the page's own file was cut short")
        return found


@dataclass(frozen=True, slots=True)
class PageSource:
    """A page as it came from the network.

    Attributes
    ----------
    url
        The URL that was asked for.
    final_url
        The URL that answered, after redirects; links are relative to it.
    status
        The HTTP status of the answer.
    content_type
        The ``Content-Type`` header as received, None when there was none.
    body
        The body with transfer and content codings undone.
    redirects
        Each hop on the way: its URL and the status that sent us on.
    fetched_at
        When the answer came, in UTC.
    headers
        Other response headers, in the order received.
    body_slice
        Where the body lies, which `body` then leaves out.
    """

    url: str
    final_url: str
    status: int
    content_type: str | None
    body: bytes
    redirects: tuple[tuple[str, int], ...]
    fetched_at: datetime
    headers: tuple[tuple[str, str], ...] = ()
    body_slice: FileSlice | None = None

    def load_body(self) -> PageSource:
        """Return the page with its body."""
        if self.body_slice is None:
            return self
        return replace(self, body=self.body_slice.read(), body_slice=None)

    def with_body_in(self, where: FileSlice) -> PageSource:
        """Return the page with its body left where it lies."""
        return PageSource(
            self.url,
            self.final_url,
            self.status,
            self.content_type,
            b"",
            self.redirects,
            self.fetched_at,
            self.headers,
            where,
        )

    def header(self, name: str) -> list[str]:
        """Return the values of one header, its name in any case."""
        wanted = name.lower()
        return [value for key, value in self.headers if key.lower() == wanted]


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """What to make of a page.

    Attributes
    ----------
    formats
        Names of the contract's formats; only these appear in the result.
    only_main_content
        Take formats from the main content; False takes the whole page.
    markdown_mode
        ``"article"`` or ``"full"`` decides for Markdown alone; None follows `only_main_content`.
    include_tags
        CSS selectors: when given, only what matches is content.
    exclude_tags
        CSS selectors: what matches is never content.
    facts
        What else is wanted of the page; what is not is left out and costs nothing.
    encoded
        Give the formats as JSON bytes, for those who only pass them on.
    schema
        A JSON Schema, as JSON text, to fill from what the page declares; see
        `extract.structured.EXTRACTION`. None extracts nothing.
    """

    formats: tuple[str, ...] = ("markdown",)
    only_main_content: bool = True
    markdown_mode: str | None = None
    include_tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    facts: frozenset[PageFact] = frozenset({"metadata", "quality"})
    encoded: bool = False
    schema: str | None = None


def check_selectors(selectors: tuple[str, ...], *, loc: tuple[str | int, ...]) -> None:
    """Check CSS selectors of a request before a job starts.

    Raises
    ------
    BadInput
        Names the first selector that is not valid and why; its `loc` ends with the position.
    """
    for index, selector in enumerate(selectors):
        try:
            check_selector(selector)
        except ValueError as error:
            raise BadInput(str(error), loc=(*loc, index)) from None
