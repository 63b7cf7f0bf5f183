"""A fetched response and its conversion options: the input of a page worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from webdata_nb.page.content.parser import check_selector
from webdata_nb.page.errors import BadInput, ScrapeError

PageFact: TypeAlias = Literal["metadata", "quality", "sketch", "shape", "audit", "rights"]
"""An optional part of the result, described in `Scraped`."""


SOURCE: Final = "page_source"
"""The page as received, or the text of a document, among the formats; not a public one."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A byte range of a file: `size` bytes from `start` on."""

    path: str
    start: int
    size: int

    def read(self) -> bytes:
        """Return the bytes.

        Raises
        ------
        ScrapeError
            Of kind ``parse``, when the file is missing or too short.
        """
        try:
            with Path(self.path).open("rb", buffering=0) as file:
                file.seek(self.start)
                content = file.read(self.size)
        except OSError as error:
            raise ScrapeError("parse", f"the page's own file is gone ({error.strerror})") from None
        if len(content) != self.size:
            raise ScrapeError("parse", "the page's own file was cut short")
        return content


class Redirect(NamedTuple):
    """A URL that redirected, and the status of its response."""

    url: str
    status: int


@dataclass(frozen=True, slots=True)
class FetchedResponse:
    """A response of any status, as fetched and as a page is read from it.

    Attributes
    ----------
    url
        The canonical form of the requested URL.
    final_url
        The URL after all redirects, the base of relative links. If `stopped` is set, the URL that
        was not requested.
    status
        The HTTP status of the last response.
    content_type
        Its ``Content-Type`` header, None without one; the type of the document after scripts ran,
        whatever the header says, if a browser rendered it.
    body
        Its body without content codings; empty while it is in `body_slice`.
    redirects
        The hops before `final_url`, starting with `url`.
    fetched_at
        When the response arrived, or when an archive captured it, in UTC.
    headers
        Its headers in their order, names in lower case.
    body_slice
        The part of a file that holds the body, when it is not in memory.
    wire_bytes
        The length of the body as sent.
    stopped
        Why a redirect was not followed; the body is empty then.
    refused
        Why the body was not read, by the headers.
    """

    url: str
    final_url: str
    status: int
    content_type: str | None
    body: bytes
    redirects: tuple[Redirect, ...]
    fetched_at: datetime
    headers: tuple[tuple[str, str], ...] = ()
    body_slice: FileSlice | None = None
    wire_bytes: int = 0
    stopped: str | None = None
    refused: str | None = None

    def load_body(self) -> FetchedResponse:
        """Return the page with its body in memory."""
        if self.body_slice is None:
            return self
        return replace(self, body=self.body_slice.read(), body_slice=None)

    def with_body_in(self, body_slice: FileSlice | None) -> FetchedResponse:
        """Return the page with its body in a file, or elsewhere, instead of memory."""
        return replace(self, body=b"", body_slice=body_slice)

    def header(self, name: str) -> str | None:
        """Return the first header of a name, ignoring case; None without one."""
        return next(iter(self.header_values(name)), None)

    def header_values(self, name: str) -> list[str]:
        """Return the values of all headers of a name, ignoring case."""
        lower_name = name.lower()
        return [value for key, value in self.headers if key.lower() == lower_name]


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """How a page is converted.

    Attributes
    ----------
    formats
        The output formats, by their names in the contract.
    only_main_content
        Convert the main content; False converts the whole page.
    markdown_mode
        Overrides `only_main_content` for Markdown: ``"article"`` or ``"full"``.
    include_tags
        CSS selectors; when given, only matching elements are content.
    exclude_tags
        CSS selectors of elements that are never content.
    facts
        Optional parts of the result; the others are not computed.
    encoded
        Return the formats as JSON bytes, for callers that forward them unread.
    schema
        A JSON Schema, as JSON text, to fill from the structured data of the page; None
        extracts nothing.
    extracted
        Data that was extracted from the page, as JSON text, to find the evidence of its values;
        None finds none.
    """

    formats: tuple[str, ...] = ("markdown",)
    only_main_content: bool = True
    markdown_mode: str | None = None
    include_tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    facts: frozenset[PageFact] = frozenset({"metadata", "quality"})
    encoded: bool = False
    schema: str | None = None
    extracted: str | None = None


def check_selectors(selectors: tuple[str, ...], *, loc: tuple[str | int, ...]) -> None:
    """Check the CSS selectors of a request.

    Raises
    ------
    BadInput
        For the first invalid selector; its `loc` ends with the index of the selector.
    """
    for index, selector in enumerate(selectors):
        try:
            check_selector(selector)
        except ValueError as error:
            raise BadInput(str(error), loc=(*loc, index)) from None
