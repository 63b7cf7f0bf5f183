"""Documentation pages in nginx of which a share changes, with the bytes that were sent."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.requirements import require
from tests.site.nginx import NginxSite

_AGE_S: Final = 1000.0
_BODY: Final = "</body>"


@dataclass(slots=True)
class ChangingDocs:
    """A copy of the documentation; its files are older than any request."""

    root: Path
    log: Path
    url: str
    versions: int = field(default=0)

    def change(self, urls: list[str], share: float, *, seed: int = 0) -> list[str]:
        """Change a random share of the pages with these URLs; return the URLs of those."""
        chosen = random.Random(seed).sample(sorted(urls), round(share * len(urls)))
        self.versions += 1
        for url in chosen:
            path = self._file(url)
            html = path.read_text("utf-8", "surrogateescape")
            note = f"<p>Changed in version {self.versions} of the site.</p>"
            path.write_text(html.replace(_BODY, note + _BODY), "utf-8", "surrogateescape")
            # nginx derives its validators from size and time.
            at = time.time() - _AGE_S + self.versions
            os.utime(path, (at, at))
        return chosen

    def remove(self, url: str) -> None:
        """Remove a page."""
        self._file(url).unlink()

    def sent(self) -> dict[str, int]:
        """Return the bytes that were sent since the last call, by the URL of the page."""
        found: dict[str, int] = {}
        for line in self.log.read_text().splitlines():
            size, _, path = line.split(" ", 2)
            url = self.url.rstrip("/") + path
            found[url] = found.get(url, 0) + int(size)
        os.truncate(self.log, 0)
        return found

    def _file(self, url: str) -> Path:
        name = url.removeprefix(self.url).partition("?")[0]
        return self.root / (name or "index.html")


@contextmanager
def changing_docs(folder: Path, *, gzip: bool = True) -> Iterator[ChangingDocs]:
    """Serve a copy of the documentation in a folder."""
    root, log = folder / "docs", folder / "sent.log"
    shutil.copytree(require("python-docs"), root)
    with NginxSite(root, gzip=gzip, log=log) as site:
        docs = ChangingDocs(root, log, site.url)
        docs.sent()
        yield docs
