"""The `links` format: where the content leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webdata_nb.service.scrape.content import Content
    from webdata_nb.service.scrape.reading import Reading


def links(reading: Reading, content: Content) -> list[str]:
    """List the http and https links of the content, absolute, unique, in order.

    A link to a place in another page keeps its fragment; one to a place in this page is left out.
    """
    here = reading.source.final_url.partition("#")[0]
    found: dict[str, None] = {}
    for each in content.element.select("a[href],area[href]"):
        url = reading.links[each.attr("href") or ""]
        if url is not None and not ("#" in url and url.partition("#")[0] == here):
            found[url] = None
    return list(found)
