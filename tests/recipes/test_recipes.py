"""The recipes run as they are printed, against a real site, real providers and a real service."""

from __future__ import annotations

import ast
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urldefrag

import pandas as pd
import pytest

import webdata_nb
from tests.local_service import stop
from tests.recipes import web
from tests.shell import Shell
from tests.site.fixtures import Docs
from tests.site.plain_audit import PlainSite
from tests.site.plain_reading import PlainPage
from tests.site.server import Site
from webdata_nb import settings
from webdata_nb.contract.choices import ENGINES
from webdata_nb.toolkit.frames import exports

CHECKOUT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = CHECKOUT / "docs" / "recipes"
PAGES: Final = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")
BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The six tasks that take at most five lines, imports aside.
SHORT: Final = {
    "broken-links",
    "compare-crawls",
    "failed-queries",
    "offline",
    "price-table",
    "resume",
}
_SCREEN_LINES: Final = 45
_PAGE_COLUMNS: Final = 88
_MAX_STATEMENT_LINES: Final = 5


@dataclass(slots=True)
class World:
    """What a recipe runs against, and the variables that it uses and sets."""

    site: Site
    folder: Path
    patch: pytest.MonkeyPatch
    failing_queries: set[str] = field(default_factory=set)
    names: dict[str, Any] = field(default_factory=dict)
    address: str = ""

    def run(
        self, recipe: str, block: int = 0, *, before: Mapping[str, Callable[[], object]] = {}
    ) -> dict[str, Any]:
        """Run a block of a recipe on the site; return its variables, with its last `value`.

        `before` maps the start of a statement to what happens before it.
        """
        code = blocks(FOLDER / f"{recipe}.md")[block].replace(
            web.ADDRESS, self.address or self.site.url
        )
        action_count = 0
        for statement in ast.parse(code).body:
            source = ast.get_source_segment(code, statement) or ""
            for start, happen in before.items():
                if source.startswith(start):
                    happen()
                    action_count += 1
            if isinstance(statement, ast.Expr):
                self.names["value"] = eval(source, self.names)
            else:
                exec(source, self.names)
        assert action_count == len(before)
        return self.names


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text("utf-8"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the recipes a local service, which is stopped after the last one."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("WEBDATA_HOME", str(folder))
        with webdata_nb.connect():
            yield folder
        stop(settings.current())


@pytest.fixture
def irregular(world: World) -> Iterator[World]:
    """Give a site with several folders, fragments, pages that fail, and no sitemap."""
    with Site() as outside:
        web.build_irregular(world.site, outside)
        yield world


@pytest.fixture
def world(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("WEBDATA_HOME", str(home))
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with Site() as site, webdata_nb.connect():
        web.build(site)
        failing: set[str] = set()
        for name, value in web.serve_providers(site, failing).items():
            monkeypatch.setenv(name, value)
        for engine in ENGINES:
            name = "brave" if engine == "engine_two" else "searxng"
            monkeypatch.setenv(f"WEBDATA_{engine.upper()}", name)
        yield World(site, tmp_path, monkeypatch, failing)


def test_recipes_are_listed_and_short() -> None:
    index = (FOLDER / "index.md").read_text("utf-8")
    assert len(PAGES) >= 11
    assert [page.name for page in PAGES if f"({page.name})" not in index] == []
    assert [page.name for page in PAGES if len(page.read_text().splitlines()) > _SCREEN_LINES] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_fits_the_page(page: Path) -> None:
    lines = [line for code in blocks(page) for line in code.splitlines()]
    assert [line for line in lines if len(line) > _PAGE_COLUMNS] == []


@pytest.mark.parametrize("name", sorted(SHORT))
def test_common_task_takes_five_lines(name: str) -> None:
    lines = [line for line in blocks(FOLDER / f"{name}.md")[0].splitlines() if line.strip()]
    code = [line for line in lines if not re.match(r"from \w+ import |import ", line)]
    assert len(code) <= _MAX_STATEMENT_LINES


def test_broken_links(world: World) -> None:
    links = world.run("broken-links")["value"]
    assert pairs(links) == web.spelled(read(world.site.url).broken_links())
    assert set(links["link"]) == {world.site.at(web.BROKEN)}
    assert links["status_code"].tolist() == [404] * len(links)


def test_broken_links_of_an_irregular_site(irregular: World) -> None:
    links = irregular.run("broken-links")["value"]
    truth = read(irregular.site.url)
    assert pairs(links) == web.spelled(truth.broken_links())
    assert len(links) > 20
    statuses = {url: reply.status for url, reply in truth.replies.items()}
    for link, status in zip(links["link"], links["status_code"], strict=True):
        assert link not in statuses or pd.isna(status) or status == statuses[link], link
    without_status = links[links["status_code"].isna()]["link"]
    assert set(without_status) <= {irregular.site.at(path) for path in ("/hangs-up", "/loop")}


def test_broken_links_of_a_site_whose_links_are_a_column(irregular: World) -> None:
    url = irregular.site.url
    pages = webdata_nb.crawl_df(url, max_pages=1000, formats=["links"], only_main_content=False)
    links = webdata_nb.links_df(pages, broken=True)
    truth = read(url).broken_links()
    assert "#" in "".join(links["link"])
    links["link"] = [urldefrag(link)[0] for link in links["link"]]
    assert pairs(links) <= web.spelled(truth)
    # What redirects to a page that has a row of its own has none.
    unknown = {link.partition(url)[2] for _, link in web.spelled(truth) - pairs(links)}
    assert unknown <= {"old-missing", "old-twice", "nowhere"}


@pytest.mark.slow
def test_broken_links_of_documentation(world: World, django_docs: Docs) -> None:
    """The truth is 281 links of pages, which are 423 with their fragments, to 77 pages."""
    world.address = django_docs.url
    names = world.run("broken-links")
    truth = read(django_docs.url).broken_links()
    assert len(names["pages"]) < 1000
    assert len(truth) > 0
    assert pairs(names["value"]) == truth
    assert len(names["value"]) == len(truth)
    assert set(names["value"]["status_code"]) == {404}
    linked = webdata_nb.crawl_df(
        django_docs.url, max_pages=1000, formats=["links"], only_main_content=False
    ).webdata.links(broken=True)
    assert len(linked) > len(truth)
    linked["link"] = [urldefrag(link)[0] for link in linked["link"]]
    assert pairs(linked) == truth


def read(start: str) -> PlainSite:
    """Read a site with an independent program."""
    site = PlainSite(start, max_pages=10_000)
    site.read()
    return site


def pairs(links: pd.DataFrame) -> set[tuple[str, str]]:
    """Return pages and links, with percent-encodings in upper case."""
    return web.spelled(zip(links["url"], links["link"], strict=True))


def test_site_audit(world: World) -> None:
    names = world.run("site-audit")
    findings, site = names["findings"], world.site
    [broken] = findings[findings["issue"] == "broken_page"].to_dict("records")
    assert broken["url"] == site.at(web.BROKEN)
    assert set(broken["found_on"]) == {site.at("/docs/"), site.at("/docs/b.html")}
    assert site.at(web.BROKEN) in set(names["value"]["url"])


def pages_of(truth: PlainSite) -> dict[str, PlainPage]:
    """Return the pages that an independent program read, by their URL."""
    return {page.url: page for page in truth.pages.values()}


def prices_of(truth: PlainSite) -> set[tuple[str, str, float]]:
    """Return URL, name and price of the products of a site, from their JSON-LD."""
    declared = {
        url: json.loads(page.json_ld[0]) for url, page in pages_of(truth).items() if page.json_ld
    }
    return {
        (url, product["name"], float(product["offers"]["price"]))
        for url, product in declared.items()
    }


@pytest.mark.slow
def test_audit_of_an_irregular_site(irregular: World) -> None:
    names = irregular.run("site-audit")
    findings = webdata_nb.audit_df(names["pages"], fold=False)
    truth = read(irregular.site.url)
    compared = ("broken_page", "missing_description", "missing_canonical", "missing_viewport")
    found = findings[findings["issue"].isin(compared)]
    redirected = {url: reply.url for url, reply in truth.replies.items()}
    expected = {(issue, redirected[url]) for issue, url in truth.issues() if issue in compared}
    # The independent program calls 500 and a closed connection what the audit tells apart.
    others = {irregular.site.at(path) for path in ("/fault", "/hangs-up")}
    assert web.spelled(zip(found["issue"], found["url"], strict=True)) == web.spelled(
        each for each in expected if each[1] not in others
    )
    # What the recipe prints stands for the same findings.
    folded = names["findings"]
    numbers = folded["count"].where(folded["scope"] != "page", 1).groupby(folded["issue"]).sum()
    assert numbers.to_dict() == findings["issue"].value_counts().to_dict()
    assert len(folded) < len(findings) / 2


@pytest.mark.slow
def test_prices_of_a_folder(irregular: World) -> None:
    prices = irregular.run("price-table")["prices"]
    truth = prices_of(read(irregular.site.at("/shop/")))
    assert len(truth) == web.SHOP_ITEMS + 1
    assert len(prices) == len(truth)
    assert set(zip(prices["url"], prices["name"], prices["price"], strict=True)) == truth


@pytest.mark.slow
def test_checked_values_of_a_folder(irregular: World) -> None:
    names = irregular.run("check-values")
    assert names["wrong"].empty
    values = irregular.run("check-values", 1)["value"]
    truth = prices_of(read(irregular.site.at("/shop/")))
    found = zip(values.index, values["name"], values["price"].astype(float), strict=True)
    assert {each for each in found if pd.notna(each[2])} == truth


@pytest.mark.slow
def test_corpus_of_folders(irregular: World) -> None:
    corpus = irregular.run("corpus")["corpus"]
    sections = [read(irregular.site.at(path)) for path in ("/docs/", "/articles/")]
    truth = pages_of(sections[0]) | pages_of(sections[1])
    assert sorted(corpus["url"]) == sorted(truth)
    titles = dict(zip(corpus["url"], corpus["title"], strict=True))
    assert titles == {url: page.titles[0] for url, page in truth.items()}


@pytest.mark.slow
def test_comparison_of_crawls_of_an_irregular_site(irregular: World) -> None:
    site = irregular.site
    old = read(site.url)

    def change() -> None:
        web.set_product(site, "/shop/item-7.html", "Item 7, new", 3.0)
        site.page("/docs/sub/deep/", "<title>x</title>", status=404)
        site.page("/articles/rain.html", '<title>New</title><a href="new.html">New</a> text')
        site.page("/articles/new.html", "<title>Newer</title><p>This page is new.")

    changes = irregular.run("compare-crawls", before={"after": change})["value"]
    new = read(site.url)
    before, after = pages_of(old), pages_of(new)
    both = before.keys() & after.keys()
    expected = {url for url in both if before[url].words != after[url].words}
    found = {kind: set(urls) for kind, urls in changes.groupby("change")["url"]}
    is_read = changes["url"].isin(after.keys())
    assert set(changes[is_read & (changes["change"] == "changed")]["url"]) == expected
    assert found["added"] & after.keys() == after.keys() - before.keys()
    assert before.keys() - after.keys() <= set(changes["url"])


@pytest.mark.slow
def test_archive_of_an_irregular_site(irregular: World) -> None:
    names = irregular.run("archive-a-site")
    pages, archived = names["pages"], names["archived"]
    truth = read(irregular.site.url)
    read_urls = web.spelled((url, "") for url in pages_of(truth))
    for frame in (pages, archived):
        assert web.spelled((url, "") for url in frame[frame["success"]]["url"]) == read_urls
    responses = warc_statuses(irregular.folder / "site.warc.gz")
    ok = {url for url, status in responses.items() if status == 200}
    assert web.spelled((url, "") for url in ok) >= read_urls
    assert responses[irregular.site.at("/gone")] == 410


def warc_statuses(path: Path) -> dict[str, int]:
    """Return the HTTP status of each URL's response in a WARC file."""
    statuses: dict[str, int] = {}
    with gzip.open(path) as file:
        while line := file.readline():
            if not line.strip():
                continue
            fields: dict[str, str] = {}
            while field_line := file.readline().decode().strip():
                name, _, value = field_line.partition(":")
                fields[name.lower()] = value.strip()
            block = file.read(int(fields["content-length"]))
            if fields["warc-type"] == "response":
                statuses[fields["warc-target-uri"].strip("<>")] = int(block.split(b" ", 2)[1])
    return statuses


@pytest.mark.slow
def test_changes_of_a_folder(irregular: World) -> None:
    site = irregular.site
    assert irregular.run("watch-a-site")["changes"].empty
    web.set_product(site, "/shop/item-105.html", "Item 105", 24.0)
    web.set_product(site, "/outlet/item.html", "Outlet item", 2.0)
    site.page("/docs/a.html", "<title>New</title>New")
    site.page("/shop/item-4.html", "gone", status=404)
    changes = irregular.run("watch-a-site")["value"]
    item = site.at("/shop/item-105.html")
    changed = changes[changes["change"] == "changed"]
    assert changed[["url", "field", "old", "new"]].to_numpy().tolist() == [
        [item, "price", "105.5", "24"]
    ]
    assert set(changes["url"]) <= {item, site.at("/shop/item-4.html")}
    prices = irregular.run("watch-a-site", 1)["value"]
    assert prices[item].dropna().tolist() == [24.0]


@pytest.mark.slow
def test_price_table(world: World) -> None:
    prices = world.run("price-table")["prices"]
    assert dict(zip(prices["name"], prices["price"], strict=True)) == web.PRICES
    assert prices["url"].str.startswith(world.site.at("/shop/")).all()


@pytest.mark.slow
def test_price_history(world: World) -> None:
    world.run("watch-a-price")
    web.set_price(world.site, "kettle", 24.0)
    history = world.run("watch-a-price")["history"]
    assert history.sort_values("taken_at")["price"].tolist() == [29.5, 24.0]


@pytest.mark.slow
def test_changes_of_a_site(world: World) -> None:
    assert world.run("watch-a-site")["changes"].empty
    web.set_price(world.site, "kettle", 24.0)
    changes = world.run("watch-a-site")["value"]
    kettle = world.site.at("/shop/kettle.html")
    columns = ["change", "url", "field", "old", "new"]
    assert changes[columns].to_numpy().tolist() == [["changed", kettle, "price", "29.5", "24"]]
    prices = world.run("watch-a-site", 1)["value"]
    assert prices[kettle].tolist() == [24.0]


@pytest.mark.slow
def test_ranks_over_three_days(world: World) -> None:
    own, other = "https://docs.example.com/gauge", "https://other.test/"
    served: dict[str, list[str]] = {"searxng": [], "brave": [other, own]}
    with Site() as providers:
        for name, value in web.serve_providers(providers, world.failing_queries, served).items():
            world.patch.setenv(name, value)
        for engine in ("ONE", "THREE"):  # without a fallback
            world.patch.setenv(f"WEBDATA_ENGINE_{engine}", "searxng")
        world.patch.setenv("WEBDATA_ENGINE_TWO", "searxng")
        for urls in ([other, own], [own, other], [other]):
            served["searxng"][:] = urls
            world.failing_queries.clear()
            world.failing_queries |= {"barometer"} if urls[0] == own else set()
            pivot = world.run("rank-tracking")["value"]
        truth = {
            "rain gauge": [2, 1, None],
            "barometer": [2, None, None],
            "aurora forecast": [2, 1, None],
        }
        found = pivot.astype(object).where(pivot.notna(), None).to_numpy().tolist()
        assert dict(zip(pivot.index, found, strict=True)) == truth
        changes = world.names["history"].webdata.changes()
        assert changes[["query", "change", "old"]].to_numpy().tolist() == [
            [query, "removed", old]
            for query, old in (("rain gauge", "1"), ("barometer", "2"), ("aurora forecast", "1"))
        ]
        assert len(world.run("rank-tracking", 1)["value"].axes) == 1
        missing = world.run("rank-tracking", 2)["value"]
        assert missing["status"].tolist() == ["failed", *["not_ranked"] * 3]
        world.patch.setenv("WEBDATA_ENGINE_TWO", "brave")
        table = world.run("rank-tracking", 3)["value"]
        assert table["example.com"]["engine_two"].tolist() == [2, 2, 2]


@pytest.mark.slow
def test_comparison_of_crawls(world: World) -> None:
    def change() -> None:
        world.site.page("/docs/a.html", "<title>New</title><p>New text")

    changes = world.run("compare-crawls", before={"after": change})["value"]
    assert set(changes["url"]) == {world.site.at("/docs/a.html")}
    assert set(changes["change"]) == {"changed"}
    title = changes[changes["field"] == "title"]
    assert title[["old", "new"]].to_numpy().tolist() == [["/docs/a.html", "New"]]


@pytest.mark.slow
def test_archive_of_a_site(world: World) -> None:
    names = world.run("archive-a-site")
    pages, archived = names["pages"], names["archived"]
    assert archived["url"].tolist() == pages["url"].tolist()
    assert archived["markdown"].equals(pages["markdown"])
    world.site.page("/docs/a.html", "<title>New</title><p>New text")
    changes = world.run("archive-a-site", 1)["value"]
    assert set(changes["url"]) == {world.site.at("/docs/a.html")}


@pytest.mark.slow
def test_checks_of_values(world: World) -> None:
    names = world.run("check-values")
    assert names["wrong"].empty
    assert set(names["checks"]["verdict"]) == {"verbatim", "derived"}
    values = world.run("check-values", 1)["value"]
    assert set(values["name"].dropna()) >= set(web.PRICES)
    shop, kettle = names["shop"], world.site.at("/shop/kettle.html")
    is_kettle = shop["url"] == kettle
    shop["extract"] = shop["extract"].mask(
        is_kettle, [{"name": "kettle", "price": 28.5}] * len(shop)
    )
    checks = webdata_nb.verify(shop)
    wrong = checks[checks["verdict"] == "unsupported"]
    assert wrong[["url", "field", "value"]].to_numpy().tolist() == [[kettle, "price", "28.5"]]


@pytest.mark.slow
def test_corpus(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = world.run("corpus")["corpus"]
    paths = {path for path in web.PAGES if path.startswith(("/docs/", "/articles/"))}
    assert {world.site.at(path) for path in paths} <= set(corpus["url"])
    assert corpus["markdown"].str.contains("has a paragraph of its own").all()
    assert " pages\n" in capsys.readouterr().out
    chunks = world.run("corpus", 1)["chunks"]
    assert set(chunks["url"]) <= set(corpus["url"])
    text = dict(zip(corpus["url"], corpus["markdown"], strict=True))
    spans = zip(chunks["url"], chunks["start"], chunks["end"], chunks["text"], strict=True)
    assert all(text[url][start:end] == part for url, start, end, part in spans)
    [part] = (world.folder / "chunks" / "data").glob("train-*.parquet")
    assert pd.read_parquet(part)["text"].tolist() == chunks["text"].tolist()


@pytest.mark.slow
def test_shared_results(world: World) -> None:
    world.patch.setattr(exports, "_shown_losses", {"xlsx"})
    prices = world.run("share-results")["prices"]
    assert "http" in (world.folder / "prices.html").read_text("utf-8")
    read = pd.read_excel(world.folder / "prices.xlsx", sheet_name="rows")
    assert read["price"].fillna(0).tolist() == prices["price"].fillna(0).tolist()
    assert prices["price"].notna().any()


@pytest.mark.slow
def test_comparison_of_engines(world: World) -> None:
    ranks = world.run("compare-engines")["value"]
    served = {name: list(stub) for name, stub in web.RESULTS.items()}
    expected = {
        url: [urls.index(url) + 1 if url in urls else None for urls in served.values()]
        for url in served["searxng"]
    }
    found = {
        url: [None if pd.isna(rank) else rank for rank in row.tolist()]
        for url, row in ranks.iterrows()
    }
    assert found == expected


@pytest.mark.slow
def test_failed_queries(world: World) -> None:
    world.names["queries"] = [f"query {n}" for n in range(50)]
    world.failing_queries |= {"query 7", "query 30"}

    def repair() -> None:
        assert world.names["value"]["query"].tolist() == ["query 7", "query 30"]
        world.failing_queries.clear()

    hits = world.run("failed-queries", before={"hits = retry": repair})["hits"]
    assert hits["success"].all()
    assert hits["query"].nunique() == 50
    assert hits.attrs["webdata"]["counts"]["failed"] == 0


@pytest.mark.slow
def test_many_queries(world: World) -> None:
    queries = [f"query {n}" for n in range(550)]
    (world.folder / "queries.txt").write_text("\n".join(queries), encoding="utf-8")
    world.run("batch-queries")
    hits = pd.concat(map(pd.read_parquet, sorted(world.folder.glob("hits-*.parquet"))))
    assert hits["query"].unique().tolist() == queries
    requests = len(world.site.requests)
    world.run("batch-queries")
    assert len(world.site.requests) == requests


@pytest.mark.slow
def test_resuming_after_the_kernel_died(world: World) -> None:
    gate = world.site.hold("/docs/b.html")
    code = f"import webdata_nb as w; w.crawl_df({world.site.at('/docs/')!r}, max_pages=4)"
    kernel = subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT)
    world.site.wait_for("/docs/b.html")
    kernel.kill()
    kernel.wait()
    gate.release()
    pages = world.run("resume")["pages"]
    assert set(pages["url"]) == {world.site.at(path) for path in web.PAGES if "/docs/" in path} | {
        world.site.at(web.BROKEN)
    }


@pytest.mark.slow
def test_offline(world: World) -> None:
    first = webdata_nb.crawl_df(world.site.at("/docs/"))
    world.site.close()
    try:
        pages = world.run("offline")["pages"]
        assert pages.equals(first)
        replayed = world.run("offline", 1)["pages"]
        assert replayed.equals(first)
        assert replayed.attrs["webdata"]["cache"] == "replay"
    finally:
        webdata_nb.options.offline = None


@pytest.mark.slow
def test_team(world: World, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "team")
    words = ("--mode", "team", "--port", "0", "--allow-network", "127.0.0.0/8")
    key = shell.run("keys", "create", "--name", "alice").stdout.strip()
    with shell.start("serve", *words) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "serves http://" in line)
            world.patch.setenv("ALICE_KEY", key)
            url = line.rsplit(maxsplit=1)[1]
            connect: Callable[..., Any] = webdata_nb.connect
            world.patch.setattr(
                webdata_nb, "connect", lambda **o: connect(**(o | {"base_url": url}))
            )
            names = world.run("team")
            assert names["pages"]["success"].sum() == 3
            assert names["value"]["used"].iloc[0] > 0
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.mark.slow
def test_code_for_people_who_come_from_other_tools(world: World) -> None:
    page = "../coming-from"
    in_docs = {world.site.at(path) for path in web.PAGES if path.startswith("/docs/")}
    products = world.run(page, 0)["products"]
    expected = {name: web.PRICES[name] for name in ("kettle", "mug")}
    assert dict(zip(products["name"], products["price"], strict=True)) == expected
    docs = world.run(page, 1)["docs"]
    assert set(docs["url"]) == {*in_docs, world.site.at(web.BROKEN)}
    written = [json.loads(line) for line in (world.folder / "docs.jsonl").read_text().splitlines()]
    assert [row["url"] for row in written] == docs["url"].tolist()
    audited = world.run(page, 2)
    assert set(audited["inlinks"]["link"]) == {world.site.at(web.BROKEN)}
    assert "broken_page" in set(audited["findings"]["issue"])
    assert len(audited["pages"]) == len(web.PAGES) + len(web.PRICES) + 1
    assert len(world.run(page, 3)["texts"]) == len(in_docs)
    h1 = world.run(page, 4)["h1"]
    texts = dict(zip(h1["url"], h1["text"], strict=True))
    assert {texts[world.site.at(f"/shop/{name}.html")] for name in web.PRICES} == set(web.PRICES)
    assert (world.folder / "site.jsonl").is_file()
