"""The notebooks that `pictures` takes pictures of, and the sites that they crawl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.site.static import StaticSite
from webdata_nb.demo.server import SampleSite

_DOCS: Final = Path("/usr/share/doc/python3-doc/html")
# Sites that others wrote, of Debian's packages: all pages in one folder, many levels, and Japanese.
_FLAT: Final = Path("/usr/share/doc/git-doc")
_DEEP: Final = Path("/usr/share/doc/python-django-doc/html")
_JAPANESE: Final = Path("/usr/share/doc/apache2-doc/manual/ja")
_SEARCH: Final = (
    "options.engines = dict.fromkeys(('engine_one', 'engine_two', 'engine_three'), ('local',))"
)


@dataclass(frozen=True, slots=True)
class SceneSites:
    """The addresses of a small site, of a documentation, and of a site that answers slowly.

    `others` are those of documentation sites of other shapes and scripts that are installed.
    """

    sample: str
    docs: str
    slow: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """A notebook: a cell that prepares it, and the cells whose outputs are in the pictures.

    `running` is the number of seconds after which a picture of a running cell is taken.
    """

    name: str
    setup: str
    cells: tuple[str, ...]
    running: float = 0.0


@contextmanager
def sites() -> Iterator[SceneSites]:
    """Serve the sites; the documentation is Python's if Debian's python3-doc is installed."""
    with ExitStack() as stack:
        sample = stack.enter_context(SampleSite()).url
        docs = sample
        if _DOCS.is_dir():
            docs = f"{stack.enter_context(StaticSite(_DOCS)).url}index.html"
        slow = stack.enter_context(Site(latency=1.0))
        link_tree(slow, depth=3, fanout=6)
        others = [
            f"{stack.enter_context(StaticSite(root)).url}{start}"
            for root, start in (
                (_FLAT, "git.html"),
                (_DEEP, "index.html"),
                (_JAPANESE, "index.html"),
            )
            if root.is_dir()
        ]
        yield SceneSites(sample, docs, slow.at("/tree"), tuple(others))


def all_scenes(where: SceneSites) -> Iterator[Scene]:
    """Yield the scenes in an order in which later ones may use what earlier ones crawled."""
    crawl = f"pages = crawl_df({where.docs!r}, max_pages=300, progress=False)"
    formats = "scrape_options={'formats': ['links']}"
    sample_links = f"crawl_df({where.sample!r}, max_pages=30, {formats}, progress=False)"
    yield Scene(
        "table",
        f"from webdata_nb import crawl_df, links_df, show\n{crawl}",
        (
            "pages",
            "pages[pages.depth > 1][['url', 'title']].head()",
            "pages.assign(words=pages.markdown.str.split().str.len()).sort_values('words').tail(4)",
            f"crawl_df({where.sample!r}, max_pages=30, progress=False)",
            f"links_df({sample_links}).head()",
            "show(pages, max_rows=3)",
            "print(pages)",
            "pages[:0]",
        ),
    )
    yield Scene(
        "sites",
        "from webdata_nb import cache, crawl_df, links_df, options, show\n"
        f"sites = [crawl_df(url, max_pages=40, progress=False) for url in {where.others!r}]\n"
        + _SCRIPTS,
        (
            *(f"sites[{number}]" for number in range(len(where.others))),
            *(f"show(sites[{number}], max_rows=8)" for number in range(len(where.others))),
            "sites[-1][['url', 'title', 'status_code']].head()",
            "print(sites[-1])",
            "arabic",
            "show(arabic)",
            "print(arabic)",
            "long_hosts",
            "options",
            "cache.ls()",
        ),
    )
    yield Scene(
        "search",
        f"from webdata_nb import options, search_df, jobs_df, engines_df\n{_SEARCH}",
        (
            "search_df('asyncio event loop', formats=[], progress=False)",
            "search_df('aurora forecast', num_results=4, progress=False)",
            "search_df(['asyncio', 'pathlib'], num_results=2, formats=[], progress=False)",
            "jobs_df()",
            "engines_df()",
        ),
    )
    yield Scene(
        "creatives",
        "from webdata_nb import creatives_df, gallery\n"
        "ads = creatives_df('AR00000000000000000042', should_download_previews=True, "
        "progress=False)",
        ("ads", "gallery(ads, max_cards=8)"),
    )
    yield Scene(
        "bar",
        "from webdata_nb import crawl_df",
        (f"slow = crawl_df({where.slow!r}, max_pages=150, concurrency=4, cache=False)",),
        running=7.0,
    )
    yield Scene(
        "panel",
        "from webdata_nb import crawl_job",
        (
            f"job = crawl_job({where.slow!r}, max_pages=40, concurrency=4)\njob",
            "job.wait()",
            "job.df()",
        ),
    )
    yield Scene(
        "objects",
        "from webdata_nb import connect, crawl_df, crawl_job, estimate, why\n"
        f"pages = crawl_df({where.sample!r}, max_pages=30, progress=False)",
        (
            f"why(pages, {where.sample!r} + 'no-such-page')",
            "why(pages, pages.url[0])",
            f"estimate(crawl_df, {where.docs!r}, max_pages=50)",
            "connect()",
            "connect(base_url='https://data.example.com', api_key='wd-123')",
            "pages.attrs['webdata']",
        ),
    )
    plots = tuple(f"plot_crawl(site({n}))" for n in (5, 50, 1000, 20_000))
    yield Scene("plots", _PLOT_SETUP, plots)
    sizes = ((1, 30), (5, 2), (5, 30), (20, 5), (50, 30))
    yield Scene("ranks", RANK_SETUP, tuple(f"plot_ranks(ranks{size})" for size in sizes))


_SCRIPTS: Final = """\
pages = sites[0].head(4)
titles = ["مرحبا بكم في الموسوعة الحرة", "שלום עולם: ספר המדריך", "علم الفلك (فيزياء)", "תיעוד"]
paths = ["%D8%A7%D9%84%D8%B5%D9%81%D8%AD%D8%A9", "%D7%A9%D7%9C%D7%95%D7%9D/%D7%90", "a/b", ""]
arabic = pages.assign(title=titles, url=[f"https://ar.example.org/wiki/{path}" for path in paths],
                      markdown=[f"# {title}\\n\\n{title}، {title}." for title in titles])
host = "https://a-rather-long-name-of-a-department.and-its-institute.example.org"
long_hosts = pages.assign(url=[f"{host}{n}.example.com/a/path/page-{n}.html" for n in range(4)])
"""
_PLOT_SETUP: Final = """\
import random
import pandas as pd
from webdata_nb import plot_crawl

def site(pages):
    draw = random.Random(pages)
    sections = ["library", "tutorial", "howto", "reference", "c-api", "whatsnew", "blog", "shop"]
    rows = [{"url": "https://docs.example.com/", "depth": 0}]
    while len(rows) < pages:
        section = sections[min(int(draw.expovariate(0.7)), 7)]
        parts = [section]
        for _ in range(min(int(draw.expovariate(0.8)), 4)):
            kind = draw.choice(["guide", "module", "item", "topic"])
            parts.append(f"{kind}-{draw.randint(1, 12)}")
        query = f"?page={draw.randint(1, 40)}" if draw.random() < 0.15 else ""
        name = f"/page-{len(rows)}.html" if not query else "/list"
        rows.append({"url": "https://docs.example.com/" + "/".join(parts) + name + query,
                     "depth": len(parts)})
    df = pd.DataFrame(rows)
    codes = [draw.choices([200, 301, 404, 500, None], [90, 3, 5, 1, 1])[0] for _ in range(len(df))]
    df["status_code"] = pd.array(codes, dtype="Int16")
    df["success"] = df["status_code"].eq(200).fillna(False)
    df["time_taken"] = [draw.expovariate(4) for _ in range(len(df))]
    df.attrs = {"webdata": {"kind": "crawl", "subject": "https://docs.example.com/"}}
    return df
"""

# Queries whose ranks move from day to day; some searches fail.
RANK_SETUP: Final = """\
import random
import pandas as pd
from webdata_nb import plot_ranks

topics = ["rain gauge", "barometer", "aurora forecast", "wind speed", "tide table", "sea fog",
          "cloud types", "snow depth", "frost warning", "storm surge", "sunshine", "thermometer"]

def ranks(queries, days):
    chance, rows = random.Random(2), []
    names = [topics[n % 12] + (f" {n // 12 + 1}" if n >= 12 else "") for n in range(queries)]
    places = {name: chance.randint(1, 11) for name in names}
    for day in pd.date_range("2026-11-01 06:30", periods=days, tz="UTC"):
        for name in names:
            place = places[name] + chance.choice([-1, -1, 0, 0, 0, 1, 1])
            places[name] = place = min(12, max(1, place))
            status = "not_ranked" if place > 10 else "ranked"
            status = "failed" if chance.random() < 0.03 else status
            rank = place if status == "ranked" else None
            rows.append([name, "engine_one", None, None, "example.com", status, rank, None, 10,
                         "brave", str(day), day])
    keys = ["query", "engine", "language", "country", "site"]
    columns = [*keys, "status", "rank", "url", "num_results", "provider", "snapshot", "taken_at"]
    return pd.DataFrame(rows, columns=columns)
"""
