"""Classifies elements by the words in their class and id, as bit flags called traits.

Names such as ``post-footer``, ``relatedPosts`` or ``js-comment-list`` are split into words; one
vocabulary for all sites maps words to traits.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NAVIGATION: Final = 1 << 0
SIDEBAR: Final = 1 << 1
FOOTER: Final = 1 << 2
CONSENT: Final = 1 << 3
OVERLAY: Final = 1 << 4
SHARING: Final = 1 << 5
RELATED: Final = 1 << 6
ADVERTISING: Final = 1 << 7
AUTHOR: Final = 1 << 8
DATELINE: Final = 1 << 9
TAGS: Final = 1 << 10
COMMENTS: Final = 1 << 11
CAPTION: Final = 1 << 12
SIGN_UP: Final = 1 << 13
UNSEEN: Final = 1 << 14
ASIDE: Final = 1 << 15
MEMBER: Final = 1 << 16
TITLE: Final = 1 << 17
CONTENT: Final = 1 << 18
ARTICLE_BODY: Final = 1 << 19
PAGE_CHROME: Final = 1 << 20
HIDDEN: Final = 1 << 21
PROMOTION: Final = 1 << 22
LEAD: Final = 1 << 23


def word_set(text: str) -> frozenset[str]:
    """Split a string of words into a set."""
    return frozenset(text.split())


MAX_NAME_LENGTH = 300
"""Characters of class and id that are read; longer values are generated."""

_VOCABULARY: Final = {
    PAGE_CHROME: "navheader navfooter",
    NAVIGATION: "nav navbar navigation navi menu menubar submenu megamenu topbar breadcrumb"
    " breadcrumbs crumb crumbs pagination pager paging toc sitenav subnav topnav mainnav jumplinks"
    " skiplink skip navlinks tablist tabbar",
    SIDEBAR: "sidebar sidenav sidebars sidebarleft sidebarright leftsidebar rightsidebar aside"
    " rail",
    FOOTER: "footer foot colophon copyright legal disclaimer",
    CONSENT: "cookie cookies consent gdpr onetrust ccpa cookiebot",
    OVERLAY: "modal popup popover overlay lightbox drawer offcanvas toast tooltip dropdown paywall"
    " announcement",
    SHARING: "share sharing sharebar sharer social socials addtoany addthis sharedaddy sharethis"
    " follow followus shariff teilen compartir partager condividi",
    RELATED: "related relatedposts recommended recommendation recommendations recirc recirculation"
    " trending mostread upnext readmore similar outbrain taboola alsolike youmaylike"
    " relatedlinks relatedarticles relatedcontent recirc readnext leggianche lesenswert saibamais",
    ADVERTISING: "ad ads advert adverts advertisement advertising adsense adslot sponsor sponsored"
    " dfp gpt werbung anzeige publicite publicidad pubblicita reklama adslot",
    PROMOTION: "promo promos promotion",
    AUTHOR: "authorbox authorbio bio contributor contributors byline author authors vcard",
    DATELINE: "meta metadata postmeta entrymeta dateline timestamp posted published pubdate"
    " readtime",
    TAGS: "tags tagcloud taglist categories keywords taglinks catlinks",
    COMMENTS: "comments comment commentlist discussion disqus respond livefyre"
    " kommentar kommentare kommentarmodul commentaires comentarios commenti komentarze reacties",
    CAPTION: "caption captions credit credits figcaption wpcaption",
    SIGN_UP: "newsletter subscribe subscription signup login signin register searchform optin form"
    " mailinglist",
    UNSEEN: "noprint sronly visuallyhidden screenreader offscreen",
    ASIDE: "signature sig badge badges flair comparison review reviews reviewsummary usercard"
    " userinfo postprofile avatar upsell crosssell recentlyviewed financing payments breadcrumbs"
    " quickview addtocart",
    MEMBER: "user userdetails usertitle userprofile postprofile postauthor poster member authorpane"
    " author postmeta",
    TITLE: "title headline heading",
    LEAD: "lead lede leadtext intro introduction standfirst subtitle subheadline subhead subheading"
    " dek deck summary excerpt teaser abstract vorspann chapo chapeau sommario entradilla bajada",
    CONTENT: "article articlebody content maincontent main entry post story postbody storybody body"
    " text thread message product description",
}
_WORDS: Final = {
    word: sum(trait for trait, trait_words in _VOCABULARY.items() if word in trait_words.split())
    for words in _VOCABULARY.values()
    for word in words.split()
}
NOT_CONTENT: Final = (
    NAVIGATION | SIDEBAR | FOOTER | CONSENT | OVERLAY | SHARING | RELATED | ADVERTISING
) | (TAGS | COMMENTS | SIGN_UP | UNSEEN | PROMOTION)
_PAGE_PREFIXES: Final = word_set(  # has-sidebar, no-comments, js-modal describe the whole page
    "has with without no is not overflow js single page body layout theme elementor col wp block"
    " hide"
)
_LAYOUT_WORDS: Final = word_set("grid layout wrapper")
_UNSEEN_TOKENS: Final = word_set("sr-only hidden hide d-none invisible is-hidden u-hidden")
_RELATED_PHRASES: Final = ("also-like", "most-read", "most-popular", "more-from")
_MAX_WORDS = 5
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD_BOUNDARY: Final = re.compile(rf"[^a-zA-Z0-9]+|{_CAMEL_CASE.pattern}")
_SEPARATORS: Final = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
_DIGITS = "0123456789"  # a trailing number is ignored; a word with digits inside is a random id
_RESPONSIVE_DISPLAY: Final = re.compile(r":(?:block|flex|grid|inline|visible|contents|table)")
_ARTICLE_BODY: Final = re.compile(
    r"(?:[a-z]{1,4}[-_]+)?(?:article|story|entry|post|news|blog|single)[-_]*"
    r"(?:main|full|page|detail)?[-_]*(?:body|content|contents|text|copy|paragraphs?)"
    r"(?:[-_]+(?:text|content|inner|wrapper|main|copy))?"
    r"|(?:body|rich)[-_]*(?:copy|text)|articletext|storytext|postarea|maintext"
)


@lru_cache(maxsize=1 << 15)
def traits_of(name: str) -> int:
    """Return the traits of a class attribute or an id."""
    traits = 0
    for token in name.split():
        if ":" not in token and "[" not in token:
            traits |= _traits_of_token(token)
    if traits & UNSEEN and _RESPONSIVE_DISPLAY.search(name):
        traits &= ~UNSEEN
    return traits


@lru_cache(maxsize=1 << 15)
def _traits_of_token(token: str) -> int:
    lower, words = token.lower(), _words_of(token)
    if not 0 < len(words) <= _MAX_WORDS:
        return 0
    traits = ARTICLE_BODY if _ARTICLE_BODY.fullmatch(lower) else 0
    if lower in _UNSEEN_TOKENS:
        return traits | UNSEEN
    if words[0] in _PAGE_PREFIXES and len(words) > 1:
        return traits
    for word in words:
        if word in _WORDS:
            traits |= _WORDS[word]
    if "-" in lower or "visually" in words:
        traits |= _traits_of_phrases(lower, words)
    if traits & SIDEBAR and words[-1] in _LAYOUT_WORDS:
        traits &= ~SIDEBAR  # the grid of the page and its sidebar
    if "embed" in words or "embedded" in words:
        traits &= ~SHARING
    return traits & ~CONTENT if traits & NOT_CONTENT else traits


def _words_of(token: str) -> list[str]:
    """Split a token into lower-case words without trailing digits."""
    if not token.isascii():
        parts = _WORD_BOUNDARY.split(token)
    else:
        spaced = token if token.islower() else _CAMEL_CASE.sub(" ", token)
        parts = spaced.lower().translate(_SEPARATORS).split()
    words = [part.rstrip(_DIGITS).lower() for part in parts]
    return [word for word in words if word]


def _traits_of_phrases(lower: str, words: list[str]) -> int:
    """Return the traits of word combinations."""
    traits = 0
    if "screen-reader" in lower or ("visually" in words and "hidden" in words):
        traits |= UNSEEN
    for phrase in _RELATED_PHRASES:
        if phrase in lower:
            traits |= RELATED
    return traits
