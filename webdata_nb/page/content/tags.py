"""Sets of HTML tags that several steps of a page conversion look for."""

from __future__ import annotations

DECLARATIONS = frozenset({"html", "title", "meta", "link", "base", "script"})
"""Elements with declarations about the page."""

# fmt: off
NOT_RENDERED = frozenset({
    "script", "style", "template", "noscript", "svg", "link", "meta", "title", "base", "object",
    "embed", "applet", "param", "frame", "frameset", "noframes", "datalist",
})
"""Elements without visible text: never rendered, or drawn."""

NOT_TEXT = frozenset({
    "select", "textarea", "progress", "meter", "output", "iframe", "video", "audio", "canvas",
    "map", "annotation", "annotation-xml",
})
"""Elements whose text belongs to a control, a fallback or a machine."""
# fmt: on

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
LISTS = frozenset({"ul", "ol"})

# fmt: off
BLOCKS = frozenset({
    *HEADINGS, "address", "article", "aside", "blockquote", "body", "caption", "center", "dd",
    "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer",
    "form", "header", "hgroup", "hr", "html", "legend", "li", "main", "menu", "nav", "ol",
    "optgroup", "option", "p", "search", "section", "summary", "table", "tbody", "td", "tfoot",
    "th", "thead", "tr", "ul",
})
"""Elements that begin and end a line."""
# fmt: on
PREFORMATTED = ("pre", "listing", "xmp")

INDEXED = frozenset(
    {
        *DECLARATIONS,
        *NOT_RENDERED,
        *("h1", "h2", "h3", "a", "area", "img", "amp-img", "dialog", "time", "rt", "iframe"),
    }
)
"""All tags that any step looks for; one walk over the page indexes them."""
