"""One public surface: what `__all__` says is what there is, to people, tools and checkers."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import webdata_nb
from webdata_nb.toolkit import api

SOURCE = ast.parse(Path(webdata_nb.__file__).read_text(encoding="utf-8"))


def test_every_name_is_there_and_in_order() -> None:
    assert webdata_nb.__all__ == sorted(webdata_nb.__all__)
    assert [name for name in webdata_nb.__all__ if getattr(webdata_nb, name, None) is None] == []


def test_dir_leaves_out_async_forms() -> None:
    hidden = set(webdata_nb.__all__) - set(dir(webdata_nb))
    assert hidden == {
        name
        for name in webdata_nb.__all__
        if inspect.iscoroutinefunction(getattr(webdata_nb, name))
    }
    assert len(hidden) == 21
    assert "advertisers_df" in dir(webdata_nb)


def test_public_names_are_few_enough_to_read() -> None:
    assert len(dir(webdata_nb)) <= 60


def test_guide_explains_every_argument_that_limits_a_call() -> None:
    page = (Path(__file__).parents[1] / "docs" / "guide" / "getting-started.md").read_text("utf-8")
    table = page.partition("## Words")[2].partition("## Errors")[0]
    rows = re.findall(r"^\| (.+?) \| .+? \| (.+?) \|$", table, re.MULTILINE)
    told = {
        (argument, function)
        for arguments, functions in rows
        for argument in re.findall(r"`(\w+)`", arguments)
        for function in re.findall(r"`(\w+)`", functions)
    }
    functions = {name: getattr(webdata_nb, name) for name in dir(webdata_nb)}
    limits = {
        (argument, name)
        for name, value in functions.items()
        if inspect.isfunction(value)
        for argument in inspect.signature(value).parameters
        if argument in {"limit", "num_results"} or argument.startswith("max_")
    }
    unexplained = {each for each in limits - told if each[0] != "max_depth"}
    assert unexplained == set()


def test_accessor_has_the_links_of_the_function() -> None:
    method = inspect.signature(api.FrameAccessor.links).parameters
    function = inspect.signature(webdata_nb.links_df).parameters
    assert set(method) - {"self"} == set(function) - {"df"}


def test_docstring_names_everything_in_dir_once() -> None:
    table = (webdata_nb.__doc__ or "").partition("The names by task:")[2].rpartition("====")[0]
    named = re.findall(r"`(\w+)`", table)
    assert sorted(named) == [name for name in dir(webdata_nb) if name != "__version__"]


def test_a_star_import_gives_them_all() -> None:
    scope: dict[str, object] = {}
    exec("from webdata_nb import *", scope)
    assert set(webdata_nb.__all__) <= set(scope)


def test_what_checkers_see_is_what_there_is() -> None:
    seen = {
        alias.asname or alias.name
        for block in SOURCE.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen | {"__version__"} == set(webdata_nb.__all__)


def test_every_function_is_public_and_every_public_name_documented() -> None:
    functions = {name for name, value in vars(api).items() if callable(value)}
    assert functions - {"FrameAccessor"} <= set(webdata_nb.__all__)
    for name in webdata_nb.__all__:
        if name != "__version__":
            assert inspect.getdoc(getattr(webdata_nb, name)), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="serch_df"):
        _ = webdata_nb.serch_df


def test_the_cache_offers_what_it_promises() -> None:
    assert webdata_nb.cache.__all__ == ["clear", "ls", "path", "size"]
    assert all(callable(getattr(webdata_nb.cache, name)) for name in webdata_nb.cache.__all__)
