"""Compares the crawl of a WARC file by `wget -r` with the live crawl of the same site.

The site is Debian's Python documentation (`python3-doc`), served by nginx on loopback. `wget -r`
stores the whole site as a WARC file, and `crawl_df` crawls the site, then the file, with the same
options. The two frames must have the same hash; times are left out.

wget runs without `-A html,htm`: with it, it stores no page whose name ends otherwise, and so lacks
the Python program below `_downloads/`, which `crawl_df` reads as a page of text.

Run it from the checkout, with the `test` extra, nginx, wget and python3-doc installed::

    python -m benchmarks.wget_archive
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import pandas as pd

from tests.requirements import find
from tests.site.nginx import NginxSite
from webdata_nb import crawl_df

OPTIONS: Final[dict[str, Any]] = {
    "max_pages": 1000,
    "formats": ["markdown", "links", "headings", "raw_html"],
    "cache": False,
    "progress": False,
}
_TIMES: Final = ["time_taken", "fetched_at"]


def store_site(url: str, folder: Path) -> Path:
    """Store a site with wget; return the WARC file."""
    command = ["wget", "--quiet", "--recursive", "--level=inf", f"--warc-file={folder / 'site'}"]
    # Its exit code is 8 for a site with a broken link, as this one.
    subprocess.run([*command, f"--directory-prefix={folder / 'files'}", url], check=False)
    return folder / "site.warc.gz"


def frame_hash(frame: pd.DataFrame) -> str:
    """Return a hash of all cells but the times."""
    compared = frame.drop(columns=_TIMES)
    compared["metadata"] = compared["metadata"].map(lambda each: {**each, "fetched_at": None})
    return hashlib.sha256(compared.to_json(orient="records").encode()).hexdigest()


def main() -> int:
    """Print rows and hashes; return 1 where they differ."""
    docs = find("python-docs")
    if docs is None or find("wget") is None or find("nginx") is None:
        raise SystemExit("nginx, wget and python3-doc are needed")
    with NginxSite(docs) as site, tempfile.TemporaryDirectory() as folder:
        live = crawl_df(site.url, **OPTIONS)
        archive = store_site(site.url, Path(folder))
        archived = crawl_df(site.url, archive=archive, **OPTIONS)
    hashes = [frame_hash(frame) for frame in (live, archived)]
    for name, frame, digest in zip(("live", "wget"), (live, archived), hashes, strict=True):
        print(f"{name:5} {len(frame):,} rows  {digest}")
    missing = sorted(set(live["url"]) - set(archived["url"]))
    print(f"not in the file: {', '.join(missing) or 'none'}")
    return 0 if hashes[0] == hashes[1] else 1


if __name__ == "__main__":
    sys.exit(main())
