"""Defines the request to render a page and the rendered page. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from webdata_nb.service.browser.devices import DeviceScreen
from webdata_nb.service.web.fetch import FetchedResponse

MOST_PIXELS_HIGH: Final = 16_384
"""The maximum height of a screenshot; some programs cannot open higher images."""


@dataclass(frozen=True, slots=True)
class ScreenshotRequest:
    """The screenshot to take; sizes are in CSS pixels.

    Attributes
    ----------
    full_page : bool
        Whether to show the whole page, up to 16,384 pixels, and not only the viewport.
    width, height : int, optional
        The viewport; by default the one of the device.
    """

    full_page: bool = False
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """One page to render.

    Attributes
    ----------
    url : str
        An absolute http or https URL; scripts see its fragment.
    timeout_s : float
        The deadline in seconds for the whole page.
    wait_for : int or str, optional
        Milliseconds to wait once the page has loaded, or a CSS selector to wait for.
    mobile : bool
        Render for a phone.
    mobile_device : str, optional
        One of Playwright's device presets; without one, `mobile` takes a current phone's.
    headers, cookies : mapping of str to str
        The job's own; sent to the page's own origin only.
    screenshot : ScreenshotRequest, optional
        The screenshot to take.
    document : Fetched, optional
        The page's document, if it was fetched already; it is not requested again. The caller
        must have fetched it with the user agent of the device.
    delay_s : float
        The seconds that the page's host wants between requests.
    """

    url: str
    timeout_s: float = 30.0
    wait_for: int | str | None = None
    mobile: bool = False
    mobile_device: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    screenshot: ScreenshotRequest | None = None
    document: FetchedResponse | None = None
    delay_s: float = 0.0

    def context_options(self, screen: DeviceScreen) -> dict[str, Any]:
        """Return the options of the browser context; a size of the screenshot has precedence."""
        shot = self.screenshot or ScreenshotRequest()
        size = {"width": shot.width or screen.width, "height": shot.height or screen.height}
        headers = {name.lower(): value for name, value in self.headers.items()}
        agent = headers.get("user-agent", screen.user_agent)
        return {
            "viewport": size,
            "screen": size,
            "device_scale_factor": screen.scale,
            "is_mobile": screen.mobile,
            "has_touch": screen.touch,
            "service_workers": "block",
            "accept_downloads": False,
            "permissions": [],
        } | ({} if agent is None else {"user_agent": agent})


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page after its scripts ran.

    Attributes
    ----------
    url : str
        The requested URL, canonical.
    final_url : str
        The URL after redirects and scripts, canonical.
    status : int
        The HTTP status of the document at `final_url`.
    headers : tuple of (str, str)
        Its header lines, names in lower case, without those that describe its body.
    content_type : str
        The media type of `html`.
    html : bytes
        The document's tree after its scripts ran, serialised in UTF-8.
    screenshot : bytes, optional
        A PNG with one pixel per CSS pixel.
    redirects : tuple of (str, int)
        The URL and status of each HTTP redirect on the way.
    page_height : int, optional
        The height of the whole page in CSS pixels, for a screenshot of the full page.
    """

    url: str
    final_url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    content_type: str
    html: bytes
    screenshot: bytes | None
    redirects: tuple[tuple[str, int], ...]
    page_height: int | None = None
