"""Compares `records_df` with what else reads records from pages, on data that none has seen.

- the 200 generated sites held out (`tests/records/sites.py`): 20 layouts, six languages;
- the 30 labelled pages held out of the corpora's ``wcxb_dev_all`` (`tests/records/wcxb.py`), scored
  on the labelled values;
- index pages of Debian's documentation (`tests/records/documentation.py`).

The contestants, in one run and by one scorer:

- ours: `records_df` on saved pages, without options but `by="page"` for pages of one template;
- turbohtml, our parser: the table with most text of `Document.tables`, a row a record;
- pandas: the table with most text of `read_html`, with its links;
- autoscraper: it is given the values of the first true record of a site as its example.

The last figures are the processor time of a page, relative to the page's work without records: a
crawl's row with its main content, as a page worker converts it. ``asked`` is what `records_df` asks
for, the records of the whole page, and has a limit; ``added`` is the Markdown and the records of a
page in one call.

Run it from the checkout, in the environment of the tests. autoscraper is installed into an
environment of its own, which `--peers` keeps for the next run::

    python -m benchmarks.records [--dev] [--ours] [--layouts]

`--dev` takes the halves for development, `--ours` leaves out the peers, `--layouts` prints a line
for each layout. The exit code is 1 if a requirement is missed.
"""

# ruff: noqa: PD011 - the values of records and scores are those of no frame

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any, Final, TypeAlias

import pandas as pd
import turbohtml

from benchmarks.peers.pandas_tables import largest_table
from tests.records.documentation import INDEXES
from tests.records.scoring import Predicted, Score, score
from tests.records.sites import SEEDS, Site, site
from tests.records.wcxb import LabelledPage, html_of, labelled_pages, score_page
from tests.requirements import find
from webdata_nb import records_df
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse, PageFact
from webdata_nb.page.scrape.page import scrape
from webdata_nb.service.runtime.process import configure_gc
from webdata_nb.service.workers.worker import GC_THRESHOLDS

MAX_CPU_RATIO: Final = 1.3
RECORDS_F1: Final = 0.97
VALUES_F1: Final = 0.95
LABELLED_F1: Final = 0.85
PACKAGES: Final = ("autoscraper==1.1.14", "beautifulsoup4==4.12.3")  # it learns nothing with 4.15
ROUNDS: Final = 5
Pages: TypeAlias = Mapping[str, bytes]
Example: TypeAlias = Mapping[str, str]
Reader: TypeAlias = Callable[[Pages, str, Example], list[Predicted]]


def ours(pages: Pages, by: str = "record", example: Example | None = None) -> list[Predicted]:
    """Read records with `records_df`; the only place that knows what it takes and returns."""
    del example
    texts = [body.decode("utf-8", "replace") for body in pages.values()]
    frame = pd.DataFrame({"url": list(pages), "raw_html": texts})
    records = records_df(frame, by="page" if by == "page" else "record")
    rows = records.drop(columns=["url", "record", "group", "_source"])
    values = (dict(zip(rows.columns, row, strict=True)) for row in rows.itertuples(index=False))
    return [Predicted(url, row) for url, row in zip(records["url"], values, strict=True)]


def by_parser(pages: Pages, by: str, example: Example) -> list[Predicted]:
    """Read the table with most text with turbohtml, and take its first row as header."""
    del by, example
    found = []
    for url, body in pages.items():
        tables = turbohtml.parse(body).tables()
        if tables:
            header, *rows = max(tables, key=lambda table: sum(map(len, map("".join, table))))
            found += [Predicted(url, dict(zip(header, row, strict=True))) for row in rows]
    return found


def by_pandas(pages: Pages, by: str, example: Example) -> list[Predicted]:
    """Read the table with most text with pandas, texts and links."""
    del by, example
    return [Predicted(url, row) for url, body in pages.items() for row in largest_table(body)]


class AutoScraper:
    """Reads with autoscraper, in a process of the peers' environment."""

    def __init__(self, folder: Path) -> None:
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        program = Path(__file__).parent / "peers" / "autoscraper_records.py"
        self._process = subprocess.Popen(
            [python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, pages: Pages, by: str, example: Example) -> list[Predicted]:
        """Read the pages of a site."""
        del by
        assert self._process.stdin
        assert self._process.stdout
        texts = {url: body.decode("utf-8", "replace") for url, body in pages.items()}
        request = {"pages": texts, "example": dict(example)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        rows = json.loads(self._process.stdout.readline())
        return [Predicted(url, values) for url, values in rows]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@dataclass(slots=True)
class Result:
    """The scores of a contestant on a set: of all sites together, and their mean F1."""

    total: Score
    records: list[float]
    values: list[float]

    @classmethod
    def of(cls, scores: Sequence[Score]) -> Result:
        """Sum scores up."""
        total = Score()
        for each in scores:
            total += each
        records = [each.records.f1 for each in scores]
        return cls(total, records, [each.values.f1 for each in scores])

    def line(self, name: str) -> str:
        """Return the printed line."""
        return (
            f"{name:16} {self.total.line()}  mean {mean(self.records):.3f} {mean(self.values):.3f}"
        )


def read_sites(reader: Reader, sites: Sequence[Site]) -> list[Score]:
    """Return the scores of a contestant on generated sites."""
    scores = []
    for each in sites:
        (first, *_) = each.main.records
        example = {name: value.text for name, value in first.values.items()}
        predicted = reader(each.pages, each.by, example)
        scores.append(score(predicted, each.main, each.pages))
    return scores


def read_labelled(reader: Reader, pages: Sequence[LabelledPage], html: Pages) -> list[Score]:
    """Return the scores of a contestant on labelled pages."""
    scores = []
    for page in pages:
        example = {name: label.text for name, label in page.records[0].items() if not label.cut}
        predicted = reader({page.url: html[page.key]}, "record", example)
        scores.append(score_page(predicted, page))
    return scores


def read_indexes(reader: Reader) -> list[Score]:
    """Return the scores of a contestant on the indexes of installed documentation."""
    scores = []
    for index in INDEXES:
        if root := find(index.component):
            body, true = index.load(root)
            (first, *_) = true.records
            example = {name: value.text for name, value in first.values.items()}
            predicted = reader({index.url: body}, "record", example)
            scores.append(score(predicted, true, {index.url: body}))
    return scores


@contextlib.contextmanager
def readers(*, peers: Path | None) -> Iterator[dict[str, Reader]]:
    """Provide the contestants by name."""
    found: dict[str, Reader] = {"ours": ours}
    if peers is None:
        yield found
        return
    learner = AutoScraper(peers)
    try:
        yield found | {
            "turbohtml tables": by_parser,
            "pandas read_html": by_pandas,
            "autoscraper": learner,
        }
    finally:
        learner.close()


def cpu_ratios(pages: Pages) -> tuple[float, float]:
    """Return the processor time of pages with records alone and added, relative to that without.

    All alternate, and the time of a page is the minimum of its rounds.
    """
    facts: Final = frozenset[PageFact]({"metadata", "quality", "shape"})
    plain = ConversionOptions(("markdown",), facts=facts)
    asked = replace(plain, formats=("records",), only_main_content=False)
    contestants = (plain, asked, replace(plain, formats=("markdown", "records")))
    now = datetime.now(UTC)
    total = [0.0] * len(contestants)
    for url, body in pages.items():
        fetched = FetchedResponse(url, url, 200, "text/html; charset=utf-8", body, (), now)
        times: list[list[float]] = [[] for _ in contestants]
        for round_number in range(ROUNDS):
            order = list(enumerate(contestants))
            for index, options in order[:: -1 if round_number % 2 else 1]:
                start = time.process_time()
                scrape(fetched, options)
                times[index].append(time.process_time() - start)
        total = [spent + min(each) for spent, each in zip(total, times, strict=True)]
    return total[1] / total[0], total[2] / total[0]


def main() -> None:
    """Print the figures of all contestants, and fail below the requirements."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--dev", action="store_true")
    arguments.add_argument("--ours", action="store_true")
    arguments.add_argument("--layouts", action="store_true")
    arguments.add_argument(
        "--peers", type=Path, default=Path(tempfile.gettempdir(), "records-peers")
    )
    options = arguments.parse_args()
    sites = [site(seed) for seed in SEEDS if seed % 2 == (not options.dev)]
    corpora = find("corpora")
    labelled = labelled_pages("dev" if options.dev else "held_out")
    html = html_of(corpora, labelled) if corpora else {}
    missed: list[str] = []

    def require(name: str, figure: float, limit: float, *, at_most: bool = False) -> None:
        if figure > limit if at_most else figure < limit:
            missed.append(f"{name} is {figure:.4f}, required {limit}")

    print("records: precision recall F1  values: precision recall F1  mean: records, values")
    with readers(peers=None if options.ours else options.peers) as contestants:
        for name, reader in contestants.items():
            scores = read_sites(reader, sites)
            result = Result.of(scores)
            print(f"{len(sites)} sites  {result.line(name)}", flush=True)
            if options.layouts:
                for layout in dict.fromkeys(each.layout for each in sites):
                    part = [
                        s for s, each in zip(scores, sites, strict=True) if each.layout == layout
                    ]
                    print(f"    {Result.of(part).line(layout)}", flush=True)
            if name == "ours":
                require("records F1", result.total.records.f1, RECORDS_F1)
                require("values F1", result.total.values.f1, VALUES_F1)
                require("invented values", len(result.total.invented), 0, at_most=True)
        for name, reader in contestants.items() if html else ():
            result = Result.of(read_labelled(reader, labelled, html))
            print(f"{len(labelled)} labelled  {result.line(name)}", flush=True)
            if name == "ours":
                require("records F1 of labelled pages", mean(result.records), LABELLED_F1)
        for name, reader in contestants.items():
            scores = read_indexes(reader)
            print(f"{len(scores)} indexes  {Result.of(scores).line(name)}", flush=True)
            if name == "ours":
                require("records F1 of indexes", Result.of(scores).total.records.f1, 1)
    pages: dict[str, Any] = {url: page for each in sites[::10] for url, page in each.pages.items()}
    pages |= {page.url: html[page.key] for page in labelled if html}
    configure_gc(*GC_THRESHOLDS)
    asked, added = cpu_ratios(pages)
    print(f"processor time, relative to the page's work: asked {asked:.2f}, added {added:.2f}")
    require("processor time of records", asked, MAX_CPU_RATIO, at_most=True)
    print("\n".join(missed))
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
