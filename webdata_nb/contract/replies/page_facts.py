"""Models of the facts of a crawl's pages, which an audit compares (ours)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, Rows, RowsOf, SuccessReply
from webdata_nb.contract.states import JobStatus


class PageLink(Reply):
    """A page that a page links to, each once."""

    url: str = Field(description="Absolute URL, without fragment.")
    text: str | None = Field(
        default=None,
        description="The first link text, the alternative text of its image, or its `aria-label` "
        "or `title`, up to 200 characters; null without the option `audit`.",
    )
    rel: str | None = Field(
        default=None,
        description="The `rel` of the first link; without the option `audit` only `nofollow`.",
    )
    internal: bool = Field(description="Whether it is on the site of the page.")


class PageRedirect(Reply):
    """A redirect on the way to a page."""

    url: str = Field(description="The URL that redirected.")
    status_code: int = Field(description="The HTTP status of the redirect.")


class PageAlternate(Reply):
    """A version of a page in another language."""

    language: str = Field(description="The `hreflang`.")
    url: str | None = Field(default=None, description="Absolute URL; null if it is malformed.")


class PageAudit(Reply):
    """What a page declares; lists have the elements in document order, the first 500 at most."""

    is_html: bool = Field(description="Whether it was HTML, and not a document of another type.")
    bytes: int = Field(description="Size of the decoded body, in bytes.")
    language: str | None = Field(default=None, description="The `lang` of the `html` element.")
    titles: list[str] = Field(description="Texts of the `title` elements.")
    descriptions: list[str] = Field(description="Contents of `meta name=description`.")
    h1s: list[str] = Field(description="Texts of the `h1` elements.")
    canonicals: list[str | None] = Field(
        description="Targets of `link rel=canonical`; null if one is malformed."
    )
    malformed_canonicals: list[str] = Field(
        default_factory=list, description="The malformed ones as they are written."
    )
    robots: list[str] = Field(description="Contents of `meta name=robots`.")
    x_robots: list[str] = Field(description="Values of the header `X-Robots-Tag`.")
    hreflang: list[PageAlternate] = Field(description="Versions in other languages.")
    viewport: str | None = Field(default=None, description="Content of `meta name=viewport`.")
    refresh: str | None = Field(default=None, description="Content of `meta http-equiv=refresh`.")
    images: int = Field(description="Number of `img` elements.")
    images_without_alt: int = Field(
        description="Number of those without `alt` that are not hidden from assistive technology."
    )
    examples_without_alt: list[str] = Field(description="URLs of the first 20 of them.")
    insecure: list[str] = Field(
        description="The first 20 URLs without TLS that a page with TLS loads or sends forms to."
    )
    structured_data_errors: list[str] = Field(
        description="Why JSON-LD blocks are not valid; the first 20."
    )


class PageFacts(Reply):
    """The facts of one URL that a crawl decided on: a page, a failure, or one not fetched."""

    url: str = Field(description="The URL in the crawl's canonical form.")
    final_url: str = Field(description="The URL after redirects.")
    position: int | None = Field(
        default=None, description="Position of its row in the crawl, from 0; null without a row."
    )
    result: str = Field(
        description="`page`, `failed`, `robots` (robots.txt disallows it), or `stopped` at a "
        "redirect that was not followed; with the option `check_links` also the outcome of a link "
        "that leads where the crawl did not go, such as `link_ok` or `link_broken`."
    )
    reason: str = Field(default="", description="The kind of failure, or why it was stopped.")
    error: str = Field(default="", description="The failure in words.")
    status_code: int | None = Field(
        default=None,
        description="HTTP status; null where there was no reply.",
    )
    fetch_seconds: float | None = Field(
        default=None,
        description="Seconds until the page was there, if it took a second or more; null without "
        "the option `audit`.",
    )
    redirects: list[PageRedirect] = Field(
        default_factory=list,
        description="The redirects, in order; of a page empty without the option `audit`.",
    )
    canonical: str | None = Field(default=None, description="The canonical URL that it declares.")
    content_hash: str | None = Field(default=None, description="Hash of the page's content.")
    in_sitemap: bool | None = Field(
        default=None,
        description="Whether a sitemap or llms.txt lists it; null if the crawl read none.",
    )
    links: list[PageLink] = Field(default_factory=list, description="The pages it links to.")
    sketch: str = Field(
        default="",
        description="Base64 of the smallest hashes (4 bytes each) of its pairs of words: pages "
        "with many in common are nearly the same. Empty without the option `audit`.",
    )
    audit: PageAudit | None = Field(
        default=None, description="What it declares; null without the option `audit`."
    )


class PageFactsPage(SuccessReply):
    """GET /v1/crawl/{job_id}/page-facts (ours), in the order in which the URLs were fetched."""

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    data: Annotated[Rows, RowsOf(PageFacts)] = Field(
        default_factory=list, description="The facts of this page of the listing."
    )
    cursor: str | None = Field(
        default=None,
        description="Continues the listing; absent from its last page, which is empty.",
    )
