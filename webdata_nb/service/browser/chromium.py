"""Finds Chromium and starts it with the proxy as its only network access."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.browser.shutdown import detach, finishes_in_time
from webdata_nb.service.runtime.child_process import child_environment

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import Error as PlaywrightError
    from playwright.async_api import Playwright

INSTALL: Final = (
    "rendering needs a browser: pip install 'webdata_nb[browser]' and, on Debian, "
    "apt install chromium-headless-shell (or chromium)"
)
LAUNCH_S: Final = 30.0
_MAX_REMOVAL_ATTEMPTS: Final = 20
_PROFILE_OPTION: Final = "--user-data-dir="
# The headless shell renders a page in a third of the time that Chromium takes.
_PROGRAM_NAMES: Final = (
    *("chromium-headless-shell", "chrome-headless-shell", "headless_shell"),
    *("chromium", "chromium-browser", "google-chrome-stable", "google-chrome"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_SYSTEM_PATHS: Final = ("/usr/bin", "/usr/local/bin", "/snap/bin")
_LAUNCH_ARGUMENTS: Final = (
    # The proxy resolves names; a connection around it finds no address.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-bypass-list=<-loopback>",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--no-pings",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--mute-audio",
    "--deny-permission-prompts",
    "--js-flags=--max-old-space-size=1024",
    "--enable-automation",  # Chromium reports its profile folder only with it
)
_ENVIRONMENT: Final = frozenset(
    {
        *("HOME", "USER", "FONTCONFIG_FILE", "FONTCONFIG_PATH", "LOCALAPPDATA", "APPDATA"),
        *("USERPROFILE", "PROGRAMFILES", "PROGRAMDATA"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_DATA_DIRS"),
        *("XDG_CONFIG_DIRS", "XDG_RUNTIME_DIR"),
    }
)


class BrowserStartError(ScrapeError):
    """An installed browser or its driver ended during the start; another start may succeed."""


def browser_missing() -> ScrapeError:
    """Return the error of a page that needs a browser if none is installed."""
    return ScrapeError("browser_missing", INSTALL)


def render_error(error: PlaywrightError, chromium: Chromium | None) -> ScrapeError:
    """Return the error of the page that an error of the browser concerns."""
    if chromium is None or not chromium.is_connected():
        return ScrapeError("render", "the browser crashed over this page")
    return ScrapeError("render", f"the page could not be rendered ({_first_line(error)})")


def find_program() -> Path | None:
    """Return the system's fastest Chromium; None if none is installed."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_SYSTEM_PATHS))
    paths = (shutil.which(name, path=path) for name in _PROGRAM_NAMES)
    return next((Path(program) for program in paths if program), None)


async def launch(
    playwright: Playwright,
    program: Path | None,
    *,
    proxy_url: str,
    artifacts: Path,
    fingerprint: str | None = None,
) -> Chromium:
    """Start a Chromium whose only network access is the proxy; trust its key, if given.

    Raises
    ------
    ScrapeError
        Of kind ``browser_missing``, if none is installed.
    BrowserStartError
        It does not start.
    """
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    executable = program or find_program() or Path(playwright.chromium.executable_path)
    if not executable.is_file():
        raise browser_missing()
    try:
        return await playwright.chromium.launch(
            executable_path=executable,
            args=[*_LAUNCH_ARGUMENTS, *_trust_option(fingerprint)],
            # Each context has its credential; requests outside of a context get 407.
            proxy={"server": proxy_url},
            # The service's environment contains keys.
            env={"TMPDIR": tempfile.gettempdir(), **child_environment(_ENVIRONMENT)},
            chromium_sandbox=_may_use_sandbox(),
            # After a crash, the driver may end before it removes its own folder.
            artifacts_dir=artifacts,
            timeout=LAUNCH_S * 1000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except Error as error:
        message = f"{executable.name} could not be started ({_first_line(error)}); {INSTALL}"
        raise BrowserStartError("browser_missing", message) from error


def start_error(error: Exception) -> BrowserStartError:
    """Return the error of a start that anything but Chromium itself ended."""
    reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
    return BrowserStartError("render", f"the browser could not be started ({reason})")


def _trust_option(fingerprint: str | None) -> tuple[str, ...]:
    # For this key only; all other certificates are checked.
    option = "--ignore-certificate-errors-spki-list"
    return () if fingerprint is None else (f"{option}={fingerprint}",)


def _first_line(error: PlaywrightError) -> str:
    # The browser's log follows.
    return next(iter(error.message.strip().splitlines()), "it says no more")[:200]


async def is_responsive(chromium: Chromium) -> bool:
    """Return whether a browser and its driver respond; a killed driver does not report its end."""
    return chromium.is_connected() and await finishes_in_time(_request_version(chromium))


async def _request_version(chromium: Chromium) -> None:
    session = await chromium.new_browser_cdp_session()
    await session.send("Browser.getVersion")
    await detach(session)


async def profile_path_of(chromium: Chromium) -> Path | None:
    """Return the temporary profile folder of a Chromium."""
    session = await chromium.new_browser_cdp_session()
    line = (await session.send("Browser.getBrowserCommandLine"))["arguments"]
    await detach(session)
    option = next((part for part in line if part.startswith(_PROFILE_OPTION)), None)
    return None if option is None else Path(option.removeprefix(_PROFILE_OPTION))


async def remove_profile(profile: Path) -> None:
    """Remove the profile of a crashed browser, even while its last processes write to it."""
    for _ in range(_MAX_REMOVAL_ATTEMPTS):
        if not await asyncio.to_thread(profile.exists):
            return
        await asyncio.to_thread(shutil.rmtree, profile, ignore_errors=True)
        await asyncio.sleep(0.05)


def _may_use_sandbox() -> bool:
    # As root, Chromium starts only without its sandbox. For other users it runs with the sandbox
    # or not at all.
    return not hasattr(os, "geteuid") or os.geteuid() != 0
