"""Tasks of analysts as notebooks, which papermill runs on sites that nothing here was made with.

A notebook leaves files. They are opened without the package, and compared with what an independent
program read from the same site.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import urldefrag

import pytest

from tests.analysts.analyst import CHECKOUT, FOLDER, TIMEOUT_S, Analyst, cells, read
from tests.requirements import require
from tests.site.nginx import NginxSite
from tests.site.plain_audit import PlainSite
from tests.site.static import StaticSite

NOTEBOOKS: Final = sorted(FOLDER.glob("*.ipynb"))
_LINES: Final = 12
_HEADINGS: Final = {"h1", "h2", "h3", "h4", "h5", "h6"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_task_takes_twelve_lines(notebook: Path) -> None:
    code = "".join("".join(cell["source"]) + "\n" for cell in cells(notebook))
    ast.parse(code)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= _LINES
    assert all(cell["outputs"] == [] for cell in cells(notebook))


@pytest.mark.slow
def test_broken_links_in_excel(analyst: Analyst, sqlite_docs: StaticSite, truth: PlainSite) -> None:
    analyst.run("broken_links", site=sqlite_docs.url)
    rows = analyst.sheet("broken-links.xlsx")
    expected = truth.broken_links()
    assert len(expected) > 400
    assert {(row["url"], row["link"]) for row in rows} == expected
    assert len(rows) == len(expected)
    assert {row["status_code"] for row in rows} == {404}


@pytest.mark.slow
def test_two_crawls_a_week_apart(
    analyst: Analyst, sqlite_docs: StaticSite, truth: PlainSite, tmp_path: Path
) -> None:
    root = tmp_path / "docs"
    shutil.copytree(require("sqlite-docs"), root, symlinks=False)
    with StaticSite(root) as site:
        analyst.run("two_crawls", site=site.url)
        assert not (tmp_path / "changes.csv").exists()
        # The same files at another address.
        before = {site.url + url.removeprefix(sqlite_docs.url): p for url, p in truth.pages.items()}
        for name in ("about.html", "books.html", "c3ref/open.html"):
            page = root / name
            with page.open("a") as file:
                file.write("<p>Read this notice first: the interface has changed.</p>\n")
        (root / "autoinc.html").unlink()
        analyst.run("two_crawls", site=site.url)
        after = read(site.url).pages
    rows = {(row["url"], row["change"]) for row in analyst.csv("changes.csv")}
    changed = {url for url in before.keys() & after.keys() if before[url].words != after[url].words}
    assert len(changed) == 3
    assert {url for url, change in rows if change == "changed"} - {
        site.url + "autoinc.html"
    } == changed
    assert site.url + "autoinc.html" in {url for url, _ in rows}
    assert len(rows) == 4


@pytest.mark.slow
def test_all_ads_of_an_advertiser_with_their_texts(analyst: Analyst) -> None:
    require("tesseract")
    samples = CHECKOUT / "webdata_nb" / "service" / "creatives" / "samples" / "samples.json"
    data = json.loads(samples.read_text("utf-8"))
    written = {
        row["creative_id"]: row
        for row in data["creatives"]
        if row["advertiser_id"] == "AR00000000000000000042"
    }
    analyst.run("advertiser", advertiser="Fulmar Instruments")
    rows = {row["creative_id"]: row for row in analyst.parquet("ads.parquet")}
    assert rows.keys() == written.keys()
    for name, row in rows.items():
        assert row["landing_domain"] == written[name]["landing_domain"]
        assert row["days_shown"] == written[name]["days_shown"]
    # The headlines are drawn in the pictures; the source gives the pictures only.
    exact = sum(rows[name]["headline"] == row["headline"] for name, row in written.items())
    assert exact >= 0.8 * len(written)


@pytest.mark.slow
def test_five_hundred_urls_with_failures_and_a_killed_kernel(
    analyst: Analyst, sqlite_docs: StaticSite, truth: PlainSite, tmp_path: Path
) -> None:
    statuses = {
        url.removeprefix(sqlite_docs.url): reply.status
        for url, reply in truth.replies.items()
        # The start page is also what nginx is asked to see whether it is there.
        if url != sqlite_docs.url and not reply.hops and (url in truth.pages or reply.status == 404)
    }
    pages = sorted(name for name, status in statuses.items() if status == 200)
    broken = sorted(name for name, status in statuses.items() if status == 404)
    names = sorted([*pages[:440], *broken[:60]])
    (tmp_path / "urls.txt").write_text("\n".join(names))
    log = tmp_path / "requests.log"
    with NginxSite(require("sqlite-docs"), log=log) as site:
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(FOLDER / "many_urls.ipynb"), site.url],
            cwd=tmp_path,
            env=analyst.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert killed.stdout.split()[-1:] == ["killed"], killed.stderr
        assert not (tmp_path / "pages.parquet").exists()
        analyst.run("many_urls", site=site.url)
        rows = analyst.parquet("pages.parquet")
        found = {row["url"].removeprefix(site.url): row["status_code"] for row in rows}
    assert list(found) == names
    assert found == {name: statuses[name] for name in names}
    assert sum(not row["success"] for row in rows) == 60
    # The job went on without the kernel: nothing was requested twice.
    paths = [line.split(" ", 2)[2] for line in log.read_text().splitlines()]
    asked = Counter(path.removeprefix("/") for path in paths if path != "/robots.txt")
    assert {name: asked[name] for name in names} == dict.fromkeys(names, 1)


# Runs the first cells in a kernel, and kills it while its call runs.
KILLED: Final = """
import json, os, signal, sys, time
import webdata_nb
from jupyter_client.manager import KernelManager

notebook, site = sys.argv[1:]
cells = [cell for cell in json.load(open(notebook))["cells"] if cell["cell_type"] == "code"]
manager = KernelManager(kernel_name="python3")
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=120)
client.execute_interactive(f"site = {site!r}", timeout=60)
client.execute("".join(cells[1]["source"]))
deadline = time.monotonic() + 120
while time.monotonic() < deadline:
    jobs = webdata_nb.jobs_df()
    if len(jobs) and jobs["completed"].fillna(0).max() > 20:
        break
    time.sleep(0.1)
# The manager would interrupt the kernel first, which cancels the job.
os.kill(manager.provisioner.pid, signal.SIGKILL)
client.stop_channels()
print("killed")
"""


@pytest.mark.slow
def test_changes_of_a_policy_page(analyst: Analyst, tmp_path: Path) -> None:
    root = tmp_path / "site"
    root.mkdir()
    policy = (require("sqlite-docs") / "copyright.html").read_text("utf-8")
    page = root / "copyright.html"
    page.write_text(policy)
    with StaticSite(root) as site:
        analyst.run("policy", page=site.url + "copyright.html")
        assert analyst.sheet("changes.xlsx") == []
        old, new = "public domain", "public  domain of everyone"
        assert old in policy
        page.write_text(policy.replace(old, new, 1))
        analyst.run("policy", page=site.url + "copyright.html")
    [row] = analyst.sheet("changes.xlsx")
    assert row["url"] == site.url + "copyright.html"
    assert row["field"] == "markdown"
    assert "of everyone" in row["new"]
    assert "of everyone" not in row["old"]


WITHOUT_PACKAGE: Final = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "webdata_nb":
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import json
import pandas as pd

frames = [pd.read_parquet("pages.parquet"), pd.read_excel("pages.xlsx"), pd.read_csv("pages.csv")]
names = ["url", "status_code", "title"]
print(json.dumps([[frame[name].tolist() for name in names] for frame in frames]))
"""


@pytest.mark.slow
def test_results_opened_without_the_package(
    analyst: Analyst, sqlite_docs: StaticSite, truth: PlainSite
) -> None:
    analyst.run("open_elsewhere", site=sqlite_docs.url)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_PACKAGE],
        cwd=analyst.folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parquet, excel, comma = json.loads(done.stdout)
    assert parquet == excel == comma
    assert len(parquet[0]) == 50
    assert set(parquet[0]) <= truth.replies.keys()
    # Lists are JSON in the formats that have none.
    for rows in (analyst.sheet("pages.xlsx"), analyst.csv("pages.csv")):
        for row, stored in zip(rows, analyst.parquet("pages.parquet"), strict=True):
            assert json.loads(row["links"] or "null") == stored["links"]
            headings = [each["text"] for each in json.loads(row["headings"] or "[]")]
            assert headings == [each["text"] for each in stored["headings"] or []]
    titles = {row["url"]: row["title"] for row in analyst.sheet("pages.xlsx")}
    read_titles = {url: page.titles[0] for url, page in truth.pages.items() if url in titles}
    assert {url: title for url, title in titles.items() if url in read_titles} == read_titles


class Headings(HTMLParser):
    """The headings and anchors of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.anchors: set[str] = set()
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HEADINGS:
            self._open = True
            self.headings.append("")
        self.anchors |= {value for name, value in attrs if name in {"id", "name"} and value}

    def handle_endtag(self, tag: str) -> None:
        if tag in _HEADINGS:
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.headings[-1] += data


def words(text: str) -> Counter[str]:
    """Return the words of letters and digits, without the targets of links."""
    return Counter(
        re.findall(r"[^\W_]{2,}", re.sub(r"\]\([^()\s]*\)|<http[^>]*>", "]", text).casefold())
    )


@pytest.mark.slow
def test_corpus_of_a_documentation_site(
    analyst: Analyst, sqlite_docs: StaticSite, truth: PlainSite
) -> None:
    analyst.run("corpus", site=sqlite_docs.url)
    rows = analyst.parquet("corpus.parquet")
    lines = (analyst.folder / "corpus.jsonl").read_text("utf-8").splitlines()
    names = ("url", "position", "text", "heading_path", "tokens")
    assert [[json.loads(line)[n] for n in names] for line in lines] == [
        [row[n] for n in names] for row in rows
    ]
    assert all(0 < row["tokens"] <= 300 for row in rows)
    by_page = defaultdict(list)
    for row in rows:
        by_page[row["url"]].append(row)
    pages = {page.url: page for page in truth.pages.values() if "/c3ref/" not in page.url}
    assert by_page.keys() <= pages.keys()
    # A page without text, such as one of links only, has no chunk.
    assert len(by_page) >= 0.97 * len(pages)
    read = {
        page.url: Headings(reply.body.decode("utf-8", "replace"))
        for url, page in truth.pages.items()
        if (reply := truth.replies[url])
    }
    foreign = whole = shown = 0
    for url, chunks in by_page.items():
        assert [row["position"] for row in chunks] == list(range(1, len(chunks) + 1))
        on_page = words(" ".join(pages[url].words))
        in_chunks = words(" ".join(row["text"] for row in chunks))
        foreign += sum((in_chunks - on_page).values())
        whole += sum(in_chunks.values())
        shown += sum(on_page.values())
        # Where a page has no heading, its title is one.
        given = [*read[url].headings, *pages[url].titles]
        headings = {"".join(re.findall(r"\w", each)) for each in given}
        for row in chunks:
            path = {"".join(re.findall(r"\w", each)) for each in row["heading_path"]}
            assert path <= headings, (url, path - headings)
            fragment = urldefrag(row["link"] or "")[1]
            assert not fragment or fragment in read[url].anchors, (url, fragment)
    assert foreign <= 0.02 * whole
    assert whole >= 0.8 * shown  # the rest is navigation
