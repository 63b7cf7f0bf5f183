"""What a request's options mean for a page: its formats, and whether it needs a browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from webdata_nb.contract.requests import FormatOptions, MarkdownMode, ScreenshotOptions
from webdata_nb.service.browser.render_request import Shot
from webdata_nb.service.pages.javascript import is_empty_without_javascript

SCREENSHOT = "screenshot"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How a page is looked at; the empty one needs no browser.

    `wait_for` is milliseconds or a CSS selector; `render` "auto" asks the page itself, and False
    needs none whatever else is wanted.
    """

    render: bool | Literal["auto"] | None = None
    wait_for: int | str | None = None
    mobile: bool = False
    mobile_device: str | None = None
    screenshot: Shot | None = None

    @property
    def on_a_phone(self) -> bool:
        """Whether the page is asked for as a mobile device would."""
        return self.mobile or self.mobile_device is not None

    def needed(self, html: bytes) -> bool:
        """Tell whether a browser must load the page; without need none is started."""
        if self.render is False:
            return False
        if self.render is True or self.wait_for is not None or self.on_a_phone or self.screenshot:
            return True
        return self.render == "auto" and is_empty_without_javascript(html)


def render_options(
    formats: tuple[str, ...],
    options: FormatOptions | None,
    *,
    mobile: bool | None,
    mobile_device: str | None,
    wait_for: int | str | None = None,
    render: bool | Literal["auto"] | None = None,
) -> RenderOptions:
    """Return how a request wants its pages looked at."""
    chosen = None if options is None else options.screenshot
    shot = _shot(chosen) if SCREENSHOT in formats else None
    return RenderOptions(render, wait_for, bool(mobile), mobile_device, shot)


def page_formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Return the formats that are made from the page's text; a screenshot is not."""
    return tuple(name for name in formats if name != SCREENSHOT)


def markdown_mode(options: FormatOptions | None) -> MarkdownMode | None:
    """Return what Markdown is made of, where the request says it apart from other formats."""
    chosen = None if options is None else options.markdown
    return None if chosen is None else chosen.mode


def _shot(options: ScreenshotOptions | None) -> Shot:
    if options is None:
        return Shot()
    full = bool(options.full_page) or options.capture == "full_page"
    return Shot(full_page=full, width=options.width, height=options.height)
