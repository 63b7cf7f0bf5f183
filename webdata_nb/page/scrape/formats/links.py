"""The `links` format: the URLs that the content links to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webdata_nb.page.content.page_content import PageContent
    from webdata_nb.page.content.parsed_page import ParsedPage


def links(page: ParsedPage, content: PageContent) -> list[str]:
    """List the http and https links of the content, absolute, unique, in order.

    A link to an anchor of another page keeps its fragment; links within this page are omitted.
    """
    own_anchor_prefix = page.source.final_url.partition("#")[0] + "#"
    targets = dict(zip(content.anchors.elements, content.anchors.targets, strict=True))
    for area in content.elements_by_tag.get("area", ()):
        targets[area] = page.link_resolver[area.attr("href")]
    urls = map(targets.get, content.element.select("a[href],area[href]"))
    return [
        url
        for url in dict.fromkeys(urls)
        if url is not None and not url.startswith(own_anchor_prefix)
    ]
