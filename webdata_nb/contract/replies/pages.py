"""Models of the content of a scraped page."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from webdata_nb.contract.replies.base import Reply


class PageFields(Reply):
    """The content of a scraped page, each field only if its format was requested."""

    markdown: str | None = Field(default=None, description="The page as Markdown.")
    html: str | None = Field(default=None, description="The page's cleaned HTML.")
    raw_html: str | None = Field(default=None, description="The page's HTML as received.")
    links: list[str] | None = Field(default=None, description="Absolute URLs of the page's links.")
    images: list[dict[str, Any]] | None = Field(
        default=None, description="The page's pictures: `url`, `alt`, `width`, `height`, `caption`."
    )
    headings: list[dict[str, Any]] | None = Field(
        default=None, description="The page's headings: `level`, `text`, `anchor`."
    )
    structured_data: dict[str, Any] | None = Field(
        default=None,
        description="`json_ld`, `microdata`, `opengraph`, `rdfa` and `meta` of the page.",
    )
    screenshot: str | None = Field(default=None, description="A PNG of the page, in Base64.")
    extract: Any = Field(default=None, description="Result of the requested extraction.")
    metadata: dict[str, Any] | None = Field(
        default=None, description="Title, description, language and further metadata."
    )
