"""What docstrings say of columns, defaults and allowed values is what there is."""

from __future__ import annotations

import builtins
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pandas as pd
import pytest
from pydantic import BaseModel

from webdata_nb import __all__, errors
from webdata_nb.contract import choices
from webdata_nb.contract.requests import CrawlRequest, CreativesRequest, SearchRequest
from webdata_nb.toolkit import api
from webdata_nb.toolkit.display import progress
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.schemas import TableName
from webdata_nb.toolkit.requests import options as groups

NAMES = [name for name in __all__ if hasattr(api, name)]
FRAMES: dict[Callable[..., Any], TableName] = {
    api.search_df: "search",
    api.crawl_df: "crawl",
    api.creatives_df: "creatives",
    api.advertisers_df: "advertisers",
    api.captures_df: "captures",
    api.jobs_df: "jobs",
    api.weights_df: "weights",
    api.engines_df: "engines",
    api.usage_df: "usage",
}
REQUESTS: dict[Callable[..., Any], type[BaseModel]] = {
    api.search_df: SearchRequest,
    api.crawl_df: CrawlRequest,
    api.creatives_df: CreativesRequest,
}

TYPES: dict[str, Any] = {
    "Engine": choices.Engine,
    "Format": choices.Format,
    "Strategy": choices.Strategy,
    "OnCancel": groups.OnCancel,
    "OnIncomplete": groups.OnIncomplete,
    "OnError": groups.OnError,
    "DtypeBackend": frame.DtypeBackend,
}


def section(function: object, name: str) -> str:
    """Return one section of a docstring."""
    doc = inspect.getdoc(function) or ""
    found = re.search(rf"(?m)^{name}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", doc, re.DOTALL)
    return found[1] if found else ""


def parameters(function: object) -> dict[str, str]:
    """Return what is said of each parameter."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in section(function, "Parameters").splitlines():
        if line and not line.startswith(" "):
            names = line.split(", ")
        else:
            texts |= {name: f"{texts.get(name, '')} {line.strip()}" for name in names}
    return texts


def columns(function: object) -> Iterator[tuple[str, str]]:
    """Give the columns of the table in "Returns", with their dtypes."""
    lines = section(function, "Returns").splitlines()
    rules = [place for place, line in enumerate(lines) if re.fullmatch(r"\s*=+( =+)+", line)]
    assert len(rules) == 3, "there must be one table"
    spans = [match.span() for match in re.finditer("=+", lines[rules[0]])]
    for line in lines[rules[1] + 1 : rules[2]]:
        names, dtype = (line[start:end].strip() for start, end in spans[:2])
        meaning = line[spans[2][0] :]
        also = re.findall(r"as is `(\w+)`", meaning)
        yield from ((name, dtype) for name in [*names.split(", "), *also])


@pytest.mark.parametrize(("function", "table"), FRAMES.items(), ids=FRAMES.values())
def test_the_columns_told_are_those_of_the_schema(
    function: Callable[..., Any], table: TableName
) -> None:
    empty = frame.build(schemas.SCHEMAS[table].empty_table())
    schema_dtypes = {name: str(dtype) for name, dtype in empty.dtypes.items()}
    assert dict(columns(function)) == schema_dtypes


def test_every_frame_function_is_looked_at() -> None:
    named = {name for name in NAMES if name.endswith("_df") and name[0] != "a"}
    known = {function.__name__ for function in FRAMES}
    # Theirs are those of another function, or are shown by tests of their own.
    others = {
        *("export_df", "history_df", "rank_df", "scrape_df", "watch_df"),
        *("links_df", "images_df", "headings_df", "extract_df", "rights_df", "records_df"),
        "chunks_df",
    }
    assert (named | {"advertisers_df"}) - others == known


@pytest.mark.parametrize(
    ("function", "made"),
    [
        (api.links_df, {"url": ["http://a.test/"], "links": [["http://b.test/"]]}),
        (api.images_df, {"url": ["http://a.test/"], "images": [[{"src": "/a.png"}]]}),
        (api.headings_df, {"url": ["http://a.test/"], "headings": [[{"level": 1}]]}),
        (api.chunks_df, {"url": ["http://a.test/"], "markdown": ["# One"]}),
        (api.rights_df, {"url": ["http://a.test/"], "rights": [{"signals": [{"signal": "tdm"}]}]}),
    ],
)
def test_derived_columns_are_named(function: Callable[..., Any], made: dict[str, Any]) -> None:
    returns = section(function, "Returns")
    for name in function(pd.DataFrame(made)).columns:
        assert re.search(rf"\b{name}\b", returns), name


# The size of a page in the contract, and the number of rows in the toolkit; and a crawl of a site,
# which the toolkit narrows to the folder of a URL with a path.
OTHER_MEANING = {(api.creatives_df, "limit"), (api.crawl_df, "scope")}


def options() -> list[tuple[Callable[..., Any], str]]:
    return [
        (function, name)
        for function, model in REQUESTS.items()
        for name in parameters(function)
        if name in model.model_fields and (function, name) not in OTHER_MEANING
    ]


@pytest.mark.parametrize(
    ("function", "name"), options(), ids=lambda each: getattr(each, "__name__", each)
)
def test_defaults_told_are_those_of_the_contract(function: Callable[..., Any], name: str) -> None:
    field = REQUESTS[function].model_fields[name]
    if field.is_required():
        return
    default = field.get_default(call_default_factory=True)
    if default is None or default == () or isinstance(default, BaseModel):
        return  # nothing unless it is given
    written = json.dumps(default) if isinstance(default, str | tuple | list) else str(default)
    defaults = re.findall(r"(\S+) \(([^)]*\bdefault\b[^)]*)\)", parameters(function)[name])
    assert defaults, f"the default is {written}"
    words = " ".join(itertools.chain(*defaults))
    assert re.search(rf"(?<!\w){re.escape(written)}(?!\w)", words), f"the default is {written}"


@pytest.mark.parametrize(
    ("function", "known"),
    [
        (api.search_df, groups.SearchDfOptions),
        (api.crawl_df, groups.CrawlDfOptions),
        (api.creatives_df, groups.CreativesDfOptions),
    ],
    ids=["search", "crawl", "creatives"],
)
def test_allowed_words_are_told(function: Callable[..., Any], known: Any) -> None:
    documented = parameters(function)
    looked_at = 0
    for name, hint in known.__annotations__.items():
        for word in words_of(str(hint)):
            assert f'"{word}"' in documented[name], (name, word)
            looked_at += 1
    assert looked_at >= 9
    for kind in progress.KINDS:
        assert f'"{kind}"' in documented["progress"]


def words_of(hint: str) -> set[str]:
    """Return the words that the types named in an annotation allow."""
    named = [types for name, types in TYPES.items() if re.search(rf"\b{name}\b", hint)]
    return {word for types in named for word in get_args(types)}


@pytest.mark.parametrize("name", NAMES)
def test_the_errors_told_exist(name: str) -> None:
    heads = [line for line in section(getattr(api, name), "Raises").splitlines() if line]
    for each in ", ".join(line for line in heads if not line.startswith(" ")).split(", "):
        assert not each or hasattr(errors, each) or hasattr(builtins, each), each
