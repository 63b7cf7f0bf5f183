"""The tags that steps of a scrape look for, by why they do."""

from __future__ import annotations

DECLARATIONS = frozenset({"html", "title", "meta", "link", "base", "script"})
"""What a page says about itself."""

# fmt: off
NOT_RENDERED = frozenset({
    "script", "style", "template", "noscript", "svg", "link", "meta", "title", "base", "object",
    "embed", "applet", "param", "frame", "frameset", "noframes", "datalist", "rp",
})
"""What is never shown, or is drawn rather than written."""

NOT_TEXT = frozenset({
    "select", "textarea", "progress", "meter", "output", "iframe", "video", "audio", "canvas",
    "map", "annotation", "annotation-xml",
})
"""Elements whose text is for a control, a fallback or a machine."""
# fmt: on

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
LISTS = frozenset({"ul", "ol"})

INDEXED = frozenset({*DECLARATIONS, *NOT_RENDERED, "h1", "a", "area", "img", "dialog"})
"""Every tag that some step looks for: a page is walked once for all of them."""
