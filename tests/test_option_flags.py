"""Flags of commands that follow from the options of public functions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from webdata_nb.toolkit.requests import options
from webdata_nb.toolkit.requests.flags import add_flags, passed_options

GROUPS = (
    options.SingleSearchInputOptions,
    options.SiteOptions,
    options.PageOptions,
    options.CreativesOptions,
    options.CommandOptions,
)
WITHOUT = {"scrape_options"}


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """Return a parser with the flags of every group."""
    parser = argparse.ArgumentParser()
    for group in GROUPS:
        add_flags(parser, group, without=WITHOUT)
    return parser


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        ("", {}),
        ("--max-pages 5 --ttl 1.5", {"max_pages": 5, "ttl": 1.5}),
        ("--sitemap --no-mobile", {"sitemap": True, "mobile": False}),
        ("--refresh --offline --only-new", {"refresh": True, "offline": True, "only_new": True}),
        ("--no-cache", {"cache": False}),
        ("--crawl-strategy bff", {"crawl_strategy": "bff"}),
        ("--engine engine_two --country de", {"engine": "engine_two", "country": "de"}),
        ("--on-incomplete warn", {"on_incomplete": "warn"}),
        ("--include-path /a --include-path /b", {"include_paths": ["/a", "/b"]}),
        ("--formats markdown,links", {"formats": ("markdown", "links")}),
        ("--header X-A:1 --header X-B:2", {"headers": {"X-A": "1", "X-B": "2"}}),
        ("--cookie a=b", {"cookies": {"a": "b"}}),
        ("--extract {}", {"extract": {}}),
        ("--out x.parquet", {"out": Path("x.parquet")}),
        ("--wait-for 500", {"wait_for": "500"}),
        ("--render", {"render": True}),
        ("--wait-for #main", {"wait_for": "#main"}),
        ("--include-tag main --page-timeout 9", {"include_tags": ["main"], "page_timeout": 9}),
    ],
)
def test_flags_become_options(
    parser: argparse.ArgumentParser, words: str, passed: dict[str, Any]
) -> None:
    args = parser.parse_args(words.split())
    assert passed_options(args, *GROUPS, without=WITHOUT) == passed


def test_selected_options_with_other_flags() -> None:
    parser = argparse.ArgumentParser()
    group = options.SingleSearchInputOptions
    add_flags(parser, group, only={"num_results", "country"}, flags={"num_results": "--num"})
    args = parser.parse_args(["--num", "3", "--country", "de"])
    assert passed_options(args, group) == {"num_results": 3, "country": "de"}
    assert "--language" not in parser.format_help()


def test_every_flag_has_help(parser: argparse.ArgumentParser) -> None:
    text = " ".join(parser.format_help().split())
    assert "pages at most, 1 to 1000 (default 100)" in text
    assert "CSS selectors of elements to omit; repeatable" in text
    assert all(action.help for action in parser._actions)
