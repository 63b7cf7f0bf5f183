"""Defines every kind of finding of an audit once: name, severity, meaning, threshold, source.

The guide's table follows from it (`website/` generates it), and so do the order and the severity of
findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning", "notice"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "notice")

# Characters of titles, descriptions and headings, and words of the content.
TITLE_LENGTH: Final = (30, 60)
DESCRIPTION_LENGTH: Final = (70, 155)
H1_LENGTH: Final = (5, 70)
MIN_WORDS: Final = 200
# Estimated share of common pairs of words.
MIN_SIMILARITY: Final = 0.9
# What web.dev calls a poor time to the first byte; ours has the whole page, and its redirects.
MAX_SECONDS: Final = 1.8
MAX_BYTES: Final = 2 * 1024 * 1024
MAX_DEPTH: Final = 3
MAX_LINKS: Final = 3000

# A rule or threshold of this project.
_OWN: Final = "own choice"
_FROG: Final = "Screaming Frog SEO Spider, default"
_SEMRUSH: Final = "Semrush Site Audit"
_GOOGLE: Final = "Google Search Central"
_HTML: Final = "HTML standard"
_RFC: Final = "RFC 9110"


@dataclass(frozen=True, slots=True)
class IssueKind:
    """A kind of finding.

    Attributes
    ----------
    name
        The value of the column `issue`.
    severity
        What it costs: visitors or indexing (`error`), quality (`warning`), or nothing for sure.
    meaning
        What is wrong, as a clause.
    source
        Where the rule or its threshold comes from.
    """

    name: str
    severity: Severity
    meaning: str
    source: str


def _kinds(severity: Severity, **meanings: tuple[str, str]) -> list[IssueKind]:
    return [IssueKind(name, severity, *rest) for name, rest in meanings.items()]


KINDS: Final[tuple[IssueKind, ...]] = (
    *_kinds(
        "error",
        broken_page=("the page answers with a status from 400 to 499", _RFC),
        server_error=("the page answers with a status from 500", _RFC),
        unreachable_page=("the page could not be read, because of a time-out, DNS or TLS", _OWN),
        redirect_loop=("the URL redirects in a circle, or too often", _RFC),
        redirect_to_error=("the URL redirects to a page that fails", _RFC),
        broken_external_link=("a link to another site leads to no page: 404, 410 ...", _RFC),
        missing_title=("there is no title, or an empty one", _HTML),
        multiple_canonicals=("several canonical URLs are declared", _GOOGLE),
        invalid_canonical=("the canonical URL is empty, malformed or no web address", "RFC 6596"),
        canonical_to_error=("the canonical URL fails", _GOOGLE),
        canonical_to_noindex=("the canonical page is excluded from indexing", _GOOGLE),
        conflicting_robots=("robots directives contradict each other", _GOOGLE),
        noindex_in_sitemap=("a sitemap lists a page that is excluded from indexing", _GOOGLE),
        error_in_sitemap=("a sitemap lists a page that fails", _GOOGLE),
        hreflang_without_return=("the page of another language does not refer back", _GOOGLE),
        hreflang_to_error=("the page of another language fails", _GOOGLE),
        hreflang_conflict=("one language has several pages", _GOOGLE),
        mixed_content=("a page with TLS loads or posts without it", "W3C Mixed Content"),
        invalid_structured_data=("a JSON-LD block is not valid, or has no @type", "JSON-LD 1.1"),
    ),
    *_kinds(
        "warning",
        redirect_chain=("a link leads through two or more redirects", _GOOGLE),
        blocked_link=("a link leads to a page that robots.txt disallows", "RFC 9309"),
        unreachable_external_link=("a link to another site gets no answer, or a 5xx", _RFC),
        empty_link_text=("no link to a URL has a text, a label or an `alt`", "WCAG 2.2, 2.4.4"),
        orphan_page=("a sitemap lists the page, but no page links to it", _FROG),
        multiple_titles=("there are several titles", _HTML),
        duplicate_title=("other indexable pages have the same title", _GOOGLE),
        missing_description=("there is no description, or an empty one", _GOOGLE),
        multiple_descriptions=("there are several descriptions", _HTML),
        duplicate_description=("other indexable pages have the same description", _GOOGLE),
        missing_h1=("there is no heading of level one, or an empty one", _FROG),
        canonical_to_redirect=("the canonical URL redirects", _GOOGLE),
        canonical_to_blocked=("robots.txt disallows the canonical URL", _GOOGLE),
        canonical_chain=("the canonical page declares another canonical URL", _GOOGLE),
        noindex_with_canonical=("the page is excluded, and names a canonical page", _GOOGLE),
        redirect_in_sitemap=("a sitemap lists a URL that redirects", _GOOGLE),
        blocked_in_sitemap=("a sitemap lists a URL that robots.txt disallows", _GOOGLE),
        canonicalized_in_sitemap=("a sitemap lists a page with another canonical URL", _GOOGLE),
        hreflang_invalid_code=("a language or region code is not one of ISO 639-1, 3166", _GOOGLE),
        hreflang_without_self=("the languages leave out the page itself", _GOOGLE),
        hreflang_to_noindex=("the page of another language is excluded from indexing", _GOOGLE),
        near_duplicate=(
            f"other indexable pages share {MIN_SIMILARITY:.0%} of its pairs of words",
            f"{_FROG} (similarity)",
        ),
        thin_page=(f"the content has fewer than {MIN_WORDS} words", _FROG),
        image_without_alt=("images have no alternative text", "WCAG 2.2, 1.1.1"),
        slow_page=(f"fetching and reading took more than {MAX_SECONDS} s", _OWN),
        heavy_page=("the HTML has more than 2 MiB", "Google Search Central, Googlebot's limit"),
    ),
    *_kinds(
        "notice",
        redirected_link=("a link leads through one redirect", _FROG),
        temporary_redirect=("a link leads through a redirect with 302, 303 or 307", _RFC),
        redirect_to_other_site=("a link leads to a redirect to another site", _OWN),
        moved_external_link=("a link to another site is redirected by 301 or 308", _RFC),
        refused_external_link=("a link to another site is refused: 401, 403, 429 ...", _RFC),
        duplicate_page=("a link leads to a copy of another page, byte by byte", _FROG),
        nofollow_internal_link=("links to the own site have rel=nofollow", _FROG),
        dead_end=("the page links to nothing", _OWN),
        deep_page=(f"the page is more than {MAX_DEPTH} links away from the start", _SEMRUSH),
        many_links=(f"the page links to more than {MAX_LINKS:,} pages", _SEMRUSH),
        short_title=(f"the title has fewer than {TITLE_LENGTH[0]} characters", _FROG),
        long_title=(f"the title has more than {TITLE_LENGTH[1]} characters", _FROG),
        short_description=(
            f"the description has fewer than {DESCRIPTION_LENGTH[0]} characters",
            _FROG,
        ),
        long_description=(
            f"the description has more than {DESCRIPTION_LENGTH[1]} characters",
            _FROG,
        ),
        multiple_h1=("there are several headings of level one", _FROG),
        duplicate_h1=("other indexable pages have the same first heading", _FROG),
        short_h1=(f"the first heading has fewer than {H1_LENGTH[0]} characters", _OWN),
        long_h1=(f"the first heading has more than {H1_LENGTH[1]} characters", _FROG),
        missing_canonical=("no canonical URL is declared", _FROG),
        canonicalized=("another page is declared as the canonical one", _FROG),
        canonical_to_other_site=("the canonical URL is on another site", _GOOGLE),
        noindex=("the page is excluded from indexing", _GOOGLE),
        nofollow_page=("a robots directive marks all links nofollow", _GOOGLE),
        missing_from_sitemap=("an indexable page is in no sitemap", _FROG),
        missing_language=("the `html` element has no `lang`", "WCAG 2.2, 3.1.1"),
        missing_viewport=("there is no viewport for phones", "Lighthouse"),
        meta_refresh=("the page reloads itself, or redirects by meta refresh", "WCAG 2.2, 2.2.1"),
    ),
)
KIND_BY_NAME: Final = {kind.name: kind for kind in KINDS}
