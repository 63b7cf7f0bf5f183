"""Compares the findings about real documentation sites with those of an independent reader.

The sites are folders of HTML in nginx: those that are given, or those of Debian's documentation
packages that are installed. The reader (`tests/site/plain_audit.py`) requests and parses all pages
itself, with `http.client` and `html.parser`. For each site, findings that only one of both has are
printed; findings that need a judgement are confirmed by a rougher one. The exit code is 1 if there
is a disagreement.

Packages need no installation: `apt-get download sqlite3-doc`, `dpkg -x sqlite3-doc_*.deb FOLDER`::

    python -m benchmarks.audit_sites FOLDER/usr/share/doc/sqlite3 ...
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pandas as pd

from tests.site.nginx import NginxSite
from tests.site.plain_audit import Issues, PlainSite, shared_pairs
from webdata_nb import audit_df, crawl_df, settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import synced

INSTALLED: Final = (
    "python3-doc/html",
    "sqlite3",
    "postgresql-doc-*/html",
    "git-doc",
    "python-django-doc/html",
    "debian-policy/policy.html",
)
MAX_PAGES: Final = 2000
# Findings that depend on the selected content, or on time: confirmed one by one.
JUDGEMENTS: Final = frozenset({"thin_page", "near_duplicate", "slow_page"})
# The content of a thin page has fewer than 200 words; what is around it may have as many.
MAX_UNLINKED_WORDS: Final = 400
# Near duplicates share 90 % of the pairs of their content, and so most of those of the page.
MIN_SHARED: Final = 0.7
EXAMPLES: Final = 5
stop = synced(local.stop)


def installed_sites() -> list[Path]:
    """Return the folders of documentation that this machine has."""
    docs = Path("/usr/share/doc")
    found = (path for pattern in INSTALLED for path in sorted(docs.glob(pattern)))
    return [path for path in found if (path / "index.html").is_file()]


@contextmanager
def own_service() -> Iterator[None]:
    """Give the block a local service of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEBDATA_HOME"] = folder
        try:
            yield
        finally:
            stop(settings.current())


def unconfirmed(findings: pd.DataFrame, pages: pd.DataFrame, site: PlainSite) -> Issues:
    """Return the judgements that the independent reader does not share."""
    clusters = dict(zip(pages["url"], pages["cluster"], strict=True))
    members: dict[int, list[str]] = {}
    for url, cluster in clusters.items():
        if not pd.isna(cluster):
            members.setdefault(int(cluster), []).append(url)
    doubtful: Issues = set()
    for issue, url in zip(findings["issue"], findings["url"], strict=True):
        page = site.pages.get(url)
        if issue == "thin_page" and (page is None or page.unlinked_words > MAX_UNLINKED_WORDS):
            doubtful.add((issue, url))
        if issue == "near_duplicate":
            others = (site.pages.get(each) for each in members[int(clusters[url])] if each != url)
            shared = [shared_pairs(page, other) for other in others if page and other]
            if max(shared, default=0.0) < MIN_SHARED:
                doubtful.add((issue, url))
    return doubtful


def wrong_sources(findings: pd.DataFrame, site: PlainSite) -> Issues:
    """Return the broken links whose pages are not those that contain them."""
    sources = site.sources()
    broken = findings[findings["issue"] == "broken_page"]
    return {
        ("found_on", url)
        for url, found_on, count in zip(
            broken["url"], broken["found_on"], broken["count"], strict=True
        )
        if count != len(sources[url]) or not set(found_on) <= sources[url]
    }


def print_issues(title: str, issues: Iterable[tuple[str, str]]) -> None:
    """Print the number of issues by kind, and some of them."""
    issues = sorted(issues)
    for kind, count in Counter(kind for kind, _ in issues).items():
        urls = [url for other, url in issues if other == kind][:EXAMPLES]
        print(f"  {title}: {count} {kind}, such as {', '.join(urls)}")


def compare(root: Path) -> int:
    """Compare the findings about one site; return the number of disagreements."""
    with NginxSite(root) as server:
        started = time.perf_counter()
        pages = crawl_df(
            server.url, max_pages=MAX_PAGES, audit=True, formats=[], cache=False, concurrency=10
        )
        findings = audit_df(pages)
        seconds = time.perf_counter() - started
        site = PlainSite(server.url, MAX_PAGES)
        site.read()
    is_judgement = findings["issue"].isin(JUDGEMENTS)
    found = set(zip(findings["issue"], findings["url"], strict=True))
    judged = {each for each in found if each[0] in JUDGEMENTS}
    expected = site.issues()
    kinds = findings["issue"].nunique()
    print(f"{root}: {len(pages)} rows, {len(findings)} findings of {kinds} kinds, {seconds:.0f} s")
    disagreements = {
        "not confirmed": found - judged - expected,
        "missed": expected - found,
        "judgement not confirmed": unconfirmed(findings[is_judgement], pages, site),
        "other pages": wrong_sources(findings, site),
    }
    for title, issues in disagreements.items():
        print_issues(title, issues)
    return sum(map(len, disagreements.values()))


def main() -> int:
    """Compare all sites; return 1 if there is a disagreement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="*", type=Path, help="folders with an index.html")
    sites = parser.parse_args().folder or installed_sites()
    with own_service():
        disagreements = sum(map(compare, sites))
    print(f"{len(sites)} sites, {disagreements} disagreements")
    return int(disagreements > 0)


if __name__ == "__main__":
    sys.exit(main())
