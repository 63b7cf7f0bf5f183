"""What is asked of the browser and what it gives back: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from webdata_nb.service.browser.devices import DeviceScreen
from webdata_nb.service.web.fetch import FetchedResponse

MOST_PIXELS_HIGH: Final = 16_384
"""The most of a page's height that a screenshot shows; longer images fail to open in places."""


@dataclass(frozen=True, slots=True)
class ScreenshotRequest:
    """A screenshot to take, in CSS pixels.

    Attributes
    ----------
    full_page : bool
        The page to its end (16,384 pixels at most) and not the viewport alone.
    width, height : int, optional
        The viewport; that of the device when not given.
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
        The page's document where it was fetched already, and is not to be requested again. A
        mobile device's own user agent is then the caller's to have sent.
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
        """Give the options of the browser's context for a screen, the screenshot's size first."""
        shot = self.screenshot or ScreenshotRequest()
        size = {"width": shot.width or screen.width, "height": shot.height or screen.height}
        named = {name.lower(): value for name, value in self.headers.items()}
        agent = named.get("user-agent", screen.user_agent)
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
    """A page as the browser left it.

    Attributes
    ----------
    url : str
        The canonical form of what was asked for.
    final_url : str
        Where redirects and scripts led, canonical.
    status : int
        The HTTP status of the document at `final_url`.
    headers : tuple of (str, str)
        Its header lines, names in lower case, without those that describe its body.
    content_type : str
        What `html` is.
    html : bytes
        The document's tree after its scripts ran, serialised in UTF-8.
    screenshot : bytes, optional
        A PNG, one pixel a CSS pixel.
    redirects : tuple of (str, int)
        The URL and status of each HTTP redirect on the way.
    page_height : int, optional
        The page's whole height in CSS pixels, where the screenshot is of the full page.
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
