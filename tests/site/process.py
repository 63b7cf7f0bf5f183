"""A test site in a process of its own, for measurements and for tests that kill it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

    from tests.site.server import Site

_CHECKOUT: Final = Path(__file__).resolve().parent.parent.parent
_EXIT_SECONDS: Final = 60.0


class SiteProcess:
    """Runs `module:function`, which sets up the site that it is given, in a child process.

    The child ends when this process closes it, and also when this process is killed: it watches
    its standard input.
    """

    def __init__(self, recipe: str, *, latency: float = 0.0, fault_rate: float = 0.0) -> None:
        self._arguments = [recipe, str(latency), str(fault_rate)]
        self._child: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        """Process id of the child."""
        if self._child is None:
            raise RuntimeError("the site is not running")
        return self._child.pid

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.site.process", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_CHECKOUT,
        )
        assert self._child.stdout is not None
        self.url = self._child.stdout.readline().strip()
        if not self.url:
            self.close()
            raise RuntimeError(f"the site {self._arguments[0]} did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child and wait for it."""
        if self._child is not None:
            self._child.communicate(timeout=_EXIT_SECONDS)


def main(recipe: str, latency: str, fault_rate: str) -> None:
    """Serve a recipe until standard input ends; the first line printed is the site's URL."""
    from tests.site.server import Site  # noqa: PLC0415 - the parent needs no aiohttp

    module, _, name = recipe.partition(":")
    with Site(latency=float(latency), fault_rate=float(fault_rate)) as site:
        getattr(import_module(module), name)(site)
        print(site.url, flush=True)  # noqa: T201 - how the parent learns the address
        sys.stdin.read()


def tree(site: Site) -> None:
    """Recipe: a tree of 1 + 10 + 100 pages, linked from the front page."""
    from tests.site.graphs import link_tree  # noqa: PLC0415 - the parent needs no aiohttp

    link_tree(site, depth=2, fanout=10, root="/tree")
    site.redirect("/", "/tree")


if __name__ == "__main__":
    main(*sys.argv[1:])
