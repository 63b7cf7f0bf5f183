"""Read the records of pages with autoscraper, which learns from one example.

Run by `benchmarks.records` in an environment of the peers. Each line of standard input is a JSON
object: `pages`, the HTML by URL, and `example`, the values of the first record by name. The reply
is a line with the rows: lists of a URL and of values by name.
"""

from __future__ import annotations

import json
import sys
import warnings
from itertools import zip_longest
from typing import Any

from autoscraper import AutoScraper
from bs4 import XMLParsedAsHTMLWarning


def read(pages: dict[str, str], example: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Learn from the first page, and read all; the values of a row are those of one position."""
    scraper = AutoScraper()
    (first, *_) = pages
    wanted = {name: [value] for name, value in example.items()}
    if not scraper.build(url=first, html=pages[first], wanted_dict=wanted):
        return []
    # Of several rules for a value the first: together they give each value more than once.
    rules = {rule["alias"]: rule["stack_id"] for rule in reversed(scraper.stack_list)}
    rows = []
    for url, html in pages.items():
        found = scraper.get_result_similar(url=url, html=html, grouped=True, unique=False)
        columns = {name: found.get(rule, []) for name, rule in rules.items()}
        rows += [
            (url, dict(zip(columns, values, strict=True)))
            for values in zip_longest(*columns.values())
        ]
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            found = read(request["pages"], request["example"])
        except ValueError as error:  # a page that its parser cannot read has no records
            print(f"autoscraper: {error}", file=sys.stderr)
            found = []
        print(json.dumps(found), flush=True)
