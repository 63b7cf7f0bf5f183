"""Decides which formats a page needs, and whether a browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from webdata_nb.contract.requests import FormatOptions, MarkdownMode
from webdata_nb.page.content.quality import is_empty_without_javascript
from webdata_nb.service.browser.render_request import ScreenshotRequest

SCREENSHOT = "screenshot"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How a browser renders a page; the defaults need no browser.

    `wait_for` is milliseconds or a CSS selector. `render` "auto" decides by the page's content,
    and False never uses a browser.
    """

    render: bool | Literal["auto"] | None = None
    wait_for: int | str | None = None
    mobile: bool = False
    mobile_device: str | None = None
    screenshot: ScreenshotRequest | None = None

    @property
    def is_mobile(self) -> bool:
        """Whether the page is requested as by a mobile device."""
        return self.mobile or self.mobile_device is not None

    def needs_browser(self, html: bytes) -> bool:
        """Return whether a browser must load the page."""
        if self.render is False:
            return False
        if self.render is True or self.wait_for is not None or self.is_mobile or self.screenshot:
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
    """Return the render options of a request."""
    screenshot_options = None if options is None else options.screenshot
    shot = None
    if SCREENSHOT in formats:
        shot = ScreenshotRequest()
        if screenshot_options is not None:
            shot = ScreenshotRequest(
                full_page=bool(screenshot_options.full_page)
                or screenshot_options.capture == "full_page",
                width=screenshot_options.width,
                height=screenshot_options.height,
            )
    return RenderOptions(render, wait_for, bool(mobile), mobile_device, shot)


def page_formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Return the formats that are made from the page's text: all but screenshots."""
    return tuple(name for name in formats if name != SCREENSHOT)


def markdown_mode(options: FormatOptions | None) -> MarkdownMode | None:
    """Return which content Markdown covers, where the request sets it for Markdown alone."""
    if options is None or options.markdown is None:
        return None
    return options.markdown.mode
