"""Defines the request to render a page and the rendered page. Pure values.

Screens are those of Playwright's device presets, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from webdata_nb.page.errors import BadInput
from webdata_nb.service.web.fetch import FetchedResponse

DESKTOP_WIDTH: Final = 1280
DESKTOP_HEIGHT: Final = 720
_PHONES: Final = ("Pixel 10", "Pixel 9", "Pixel 8", "Pixel 7")
"""The devices for `mobile` without a name; the newest that the installed Playwright has."""
_SUGGESTIONS: Final = 3


class Viewport(msgspec.Struct, frozen=True):
    """The size of a page's window, in CSS pixels."""

    width: int = DESKTOP_WIDTH
    height: int = DESKTOP_HEIGHT


class DeviceScreen(msgspec.Struct, frozen=True):
    """The screen for which a page is laid out; the fields are those of Playwright's presets.

    Attributes
    ----------
    viewport : Viewport
        The size of the window.
    device_scale_factor : float
        Device pixels per CSS pixel.
    is_mobile, has_touch : bool
        Whether the viewport follows ``<meta name=viewport>``, and whether it supports touch.
    user_agent : str, optional
        The device's user agent; by default the browser's.
    """

    viewport: Viewport = Viewport()
    device_scale_factor: float = 1.0
    is_mobile: bool = False
    has_touch: bool = False
    user_agent: str | None = None


def check_name(
    name: str, presets: Mapping[str, Any], *, loc: tuple[str | int, ...] = ("body", "mobile_device")
) -> None:
    """Check the name of a device before a job starts.

    Raises
    ------
    BadInput
        The device is unknown; the message lists similar names.
    """
    if name not in presets:
        raise BadInput(_unknown(name, presets), loc=loc)


def find_screen(name: str | None, presets: Mapping[str, Any], *, mobile: bool) -> DeviceScreen:
    """Return the screen of a device; without a name a phone's if `mobile`, else a desktop's.

    Raises
    ------
    BadInput
        The device is unknown.
    """
    if name is None and not mobile:
        return DeviceScreen()
    if name is None:
        name = next(phone for phone in _PHONES if phone in presets)
    check_name(name, presets)
    return msgspec.convert(presets[name], DeviceScreen)


def _unknown(name: str, presets: Mapping[str, Any]) -> str:
    by_lower = {preset.lower(): preset for preset in presets}
    close = get_close_matches(name.lower(), by_lower, n=_SUGGESTIONS, cutoff=0.4)
    message = f"no device preset is called {name[:80]!r}"
    if not close:
        return f"{message}; one is {_PHONES[-1]!r}"
    return f"{message}; the closest names are {', '.join(repr(by_lower[match]) for match in close)}"


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
        viewport = Viewport(
            shot.width or screen.viewport.width, shot.height or screen.viewport.height
        )
        headers = {name.lower(): value for name, value in self.headers.items()}
        options: dict[str, Any] = msgspec.to_builtins(
            msgspec.structs.replace(
                screen,
                viewport=viewport,
                user_agent=headers.get("user-agent", screen.user_agent),
            )
        )
        if options["user_agent"] is None:
            del options["user_agent"]
        return {
            **options,
            "screen": options["viewport"],
            "service_workers": "block",
            "accept_downloads": False,
            "permissions": [],
        }


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
