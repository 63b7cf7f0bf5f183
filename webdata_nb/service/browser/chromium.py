"""Finds, starts, replaces and closes the Chromium processes that render pages, one at a time.

Chromium starts with the first page, with the proxy as its only network access. It is replaced after
some hundred pages or a crash, and ends with the service, even if that is killed: the next service
removes the temporary folders that were left behind. Browsers, pages and drivers are closed with
deadlines, since a crashed one never responds.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.runtime.event_loop import start_task
from webdata_nb.service.runtime.process import KILL_SIGNAL, child_environment
from webdata_nb.service.web.forward_proxy import ForwardProxy

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import CDPSession, Playwright
    from playwright.async_api import Error as PlaywrightError


CLOSE_S: Final = 5.0
"""How long a page, a browser and its driver may each take to close."""
_DETACH_S: Final = 2.0


async def finishes_in_time(step: Awaitable[Any], limit_s: float = CLOSE_S) -> bool:
    """Await a step; return whether it ended without an error and in time."""
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    try:
        async with asyncio.timeout(limit_s):
            await step
    except (Error, TimeoutError):
        return False
    return True


async def detach(session: CDPSession) -> None:
    """End a debugging session; that of a crashed renderer never responds."""
    await finishes_in_time(session.detach(), _DETACH_S)


async def process_id_of(chromium: Chromium) -> int | None:
    """Return the id of a browser's main process, if it reports it."""
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    session = await chromium.new_browser_cdp_session()
    try:
        processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    except Error:
        return None
    finally:
        await detach(session)
    return next((int(process["id"]) for process in processes if process["type"] == "browser"), None)


async def end_browser(chromium: Chromium, pid: int | None, profile: Path | None) -> None:
    """Close a browser, which may have ended already; kill it if it does not respond."""
    if not await finishes_in_time(chromium.close()) and pid is not None and profile is not None:
        _kill(pid, profile)


def _kill(pid: int, profile: Path) -> None:
    # Another process may have this id by now.
    with contextlib.suppress(OSError):
        if str(profile).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, KILL_SIGNAL)


async def end_driver(playwright: Playwright) -> None:
    """Stop Playwright's driver and the rest of its browser."""
    if await finishes_in_time(playwright.stop()):
        return
    client: Any = getattr(getattr(playwright.stop, "__self__", None), "_client", None)
    process: Any = getattr(getattr(client, "_transport", None), "_proc", None)
    with contextlib.suppress(OSError, AttributeError):
        process.kill()


PREFIX: Final = "webdata-browser-"
# The file in a folder that contains the path of its browser's profile.
_PROFILE_FILE: Final = "profile-path"
# A browser has started by then, or has been given up.
_START_S: Final = 120.0
_PLAYWRIGHT_PREFIX: Final = "playwright_chromiumdev_profile-"
# A new service may have the process id of a killed one: in a container it is always 1.
_PROCESS_TOKEN: Final = secrets.token_hex(8)


def create_folder() -> Path:
    """Create a folder whose name contains this process's id and token."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{_PROCESS_TOKEN}-"))


def record_profile(folder: Path, profile: Path) -> None:
    """Write down the profile that is to be removed with a folder."""
    with suppress(OSError):
        (folder / _PROFILE_FILE).write_text(str(profile), "utf-8")


def remove_stale_folders() -> int:
    """Remove folders and profiles of processes that have ended; return the number of folders."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError, ValueError):
            if folder.is_symlink() or not _is_owned_by_user(folder):
                continue
            process_id, _, suffix = folder.name.removeprefix(PREFIX).partition("-")
            is_own = int(process_id) == os.getpid()
            if suffix.startswith(f"{_PROCESS_TOKEN}-") if is_own else _is_running(int(process_id)):
                continue
            for profile in _profiles_of(folder):
                shutil.rmtree(profile, ignore_errors=True)
            shutil.rmtree(folder)
            removed += 1
    return removed


def unused_profiles(created_after: float, created_before: float = inf) -> list[Path]:
    """Return profiles that no process uses; none where `/proc` does not list processes."""
    profiles: list[Path] = []
    for path in Path(tempfile.gettempdir()).glob(f"{_PLAYWRIGHT_PREFIX}*"):
        with suppress(OSError):
            is_own = not path.is_symlink() and _is_owned_by_user(path)
            if is_own and created_after <= path.stat().st_mtime <= created_before:
                profiles.append(path)
    if not profiles or not Path("/proc/self/cmdline").exists():
        return []
    commands: list[bytes] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            commands.append((process / "cmdline").read_bytes())
    in_use = b"\n".join(commands)
    return [path for path in profiles if bytes(path) not in in_use]


def _is_owned_by_user(folder: Path) -> bool:
    return not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()


def _is_running(process_id: int) -> bool:
    if os.name != "posix":
        return True  # a signal of 0 would end the process there
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _profiles_of(folder: Path) -> list[Path]:
    """Return the profiles that are to be removed with a folder.

    A browser that was killed while it started has not written down its profile: then it is one of
    that time which nobody uses.
    """
    try:
        profile = Path((folder / _PROFILE_FILE).read_text("utf-8"))
    except OSError:
        created_at = folder.stat().st_mtime
        return unused_profiles(created_at, created_at + _START_S)
    # The file may contain any path; only a profile of a browser is removed.
    is_profile = profile.name.startswith(_PLAYWRIGHT_PREFIX) and profile.parent == folder.parent
    return [profile] if is_profile else []


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


def import_playwright() -> Callable[[], Any]:
    """Return what starts the browser's driver; raises `ScrapeError` if it is not installed."""
    try:
        from playwright.async_api import async_playwright  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise browser_missing() from None
    return async_playwright


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
    arguments = list(_LAUNCH_ARGUMENTS)
    if fingerprint is not None:  # for this key only; all other certificates are checked
        arguments.append(f"--ignore-certificate-errors-spki-list={fingerprint}")
    try:
        return await playwright.chromium.launch(
            executable_path=executable,
            args=arguments,
            # Each context has its credential; requests outside of a context get 407.
            proxy={"server": proxy_url},
            # The service's environment contains keys.
            env={"TMPDIR": tempfile.gettempdir(), **child_environment(_ENVIRONMENT)},
            # As root, Chromium starts only without its sandbox. For other users it runs with the
            # sandbox or not at all.
            chromium_sandbox=not hasattr(os, "geteuid") or os.geteuid() != 0,
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


log: Final = logging.getLogger(__name__)

# How long a browser and its driver may take to start.
START_S: Final = 60.0
_MAX_STARTS: Final = 3
# A profile that no process uses for this long does not belong to a browser that is starting.
_UNUSED_S: Final = 2.0
_MAX_LOOKS: Final = 5


@dataclass(slots=True, eq=False)
class BrowserProcess:
    """One Chromium process with its driver and its proxy."""

    chromium: Chromium
    proxy: ForwardProxy
    exit_stack: contextlib.AsyncExitStack
    pages: int = 0
    active: int = 0
    needs_replacement: bool = False

    @property
    def usable(self) -> bool:
        """Whether the process can render further pages."""
        return not self.needs_replacement and self.chromium.is_connected()


class BrowserProcesses:
    """The current browser process, and those that still render their last pages.

    Parameters
    ----------
    program : Path, optional
        The browser's executable; by default the system's.
    pages_per_process : int
        The number of pages after which the browser is replaced.
    new_proxy : callable
        Returns a proxy for a new browser.
    """

    def __init__(
        self,
        program: Path | None,
        pages_per_process: int,
        new_proxy: Callable[[], ForwardProxy],
    ) -> None:
        self._program = program
        self._pages_per_process = pages_per_process
        self._new_proxy = new_proxy
        self._current: asyncio.Task[BrowserProcess] | None = None
        self._processes: set[BrowserProcess] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._cleaning: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Close all browsers, also one that is still starting."""
        current, self._current = self._current, None
        if current is not None:
            # A browser cannot be closed before it has started.
            await asyncio.gather(current, return_exceptions=True)
        for process in tuple(self._processes):
            await self._close(process)
        for cleaning in self._cleaning:
            cleaning.cancel()
        await asyncio.gather(*self._closing, *self._cleaning, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def borrow(self) -> AsyncIterator[BrowserProcess]:
        """Use the current browser for a page; close a replaced browser after its last page."""
        current = self._current
        if current is None or (
            current.done()
            and (current.cancelled() or current.exception() or not current.result().usable)
        ):
            # Outside the context of the job that needs the browser first: the proxy's callbacks
            # inherit this context, and serve pages of all jobs.
            current = asyncio.create_task(self._start(), context=contextvars.Context())
            self._current = current
        # The next page needs the browser even if this page's deadline expires during the start.
        process = await asyncio.shield(current)
        process.pages += 1
        process.active += 1
        process.needs_replacement = (
            process.needs_replacement or process.pages >= self._pages_per_process
        )
        try:
            yield process
        finally:
            process.active -= 1
            if not process.active and not process.usable:
                await self._close(process)

    async def _start(self) -> BrowserProcess:
        """Start a browser; try again if it or its driver is killed meanwhile."""
        for attempts_left in reversed(range(_MAX_STARTS)):
            started_at = time.time()
            try:
                async with asyncio.timeout(START_S):
                    return await self._start_process()
            except TimeoutError:
                raise start_timeout("the browser") from None
            except BrowserStartError as error:
                start_task(_remove_unused_profiles(started_at), self._cleaning)
                if not attempts_left:
                    raise
                log.warning("%s; trying again", error)
        raise AssertionError("unreachable")

    async def _start_process(self) -> BrowserProcess:
        start_driver = import_playwright()
        try:
            process = await self._open(lambda: start_driver().start())
        except ScrapeError:
            raise
        except Exception as error:  # the end of the driver is a plain Exception
            raise start_error(error) from error
        self._processes.add(process)
        return process

    async def _open(self, start_driver: Callable[[], Awaitable[Playwright]]) -> BrowserProcess:
        async with contextlib.AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(self._new_proxy())
            after = await stack.enter_async_context(contextlib.AsyncExitStack())
            artifacts = create_folder()
            after.push_async_callback(remove_profile, artifacts)
            playwright = await start_driver()
            stack.push_async_callback(end_driver, playwright)
            chromium = await launch(
                playwright,
                self._program,
                proxy_url=proxy.url,
                artifacts=artifacts,
                fingerprint=proxy.fingerprint,
            )
            profile, pid = await profile_path_of(chromium), await process_id_of(chromium)
            stack.push_async_callback(end_browser, chromium, pid, profile)
            if profile is not None:
                record_profile(artifacts, profile)
                after.push_async_callback(remove_profile, profile)
            return BrowserProcess(chromium, proxy, stack.pop_all())

    async def _close(self, process: BrowserProcess) -> None:
        if process in self._processes:
            self._processes.discard(process)
            # A cancellation of the page must not interrupt the closing.
            closing = process.exit_stack.aclose()
            await asyncio.shield(start_task(closing, self._closing))


async def _remove_unused_profiles(created_after: float) -> None:
    """Remove the profile of a browser whose driver ended before it reported the path.

    The browser ends some time after its driver.
    """
    unused: set[Path] = set()
    for _ in range(_MAX_LOOKS):
        now_unused = set(await asyncio.to_thread(unused_profiles, created_after))
        for profile in unused & now_unused:
            await remove_profile(profile)
        unused = now_unused
        await asyncio.sleep(_UNUSED_S)


def start_timeout(program: str) -> ScrapeError:
    """Return the error of a start that exceeded `START_S`."""
    return ScrapeError("render", f"{program} did not start within {START_S:.0f} s")
