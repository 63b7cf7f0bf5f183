"""Signatures and docstrings of public functions in all their forms."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable
from typing import Any, is_typeddict

import pytest

import webdata_nb
from tests.api.receipts import SITE
from tests.wire_service import KEY, WireService
from webdata_nb.toolkit import api, session
from webdata_nb.toolkit.api import Job, Session, connect, why
from webdata_nb.toolkit.requests import options
from webdata_nb.toolkit.requests.signatures import heading_of, option_list, request_defaults

TWINS = [
    (getattr(api, name.removeprefix("a")), getattr(api, name))
    for name in webdata_nb.__all__
    if hasattr(api, name)
    if inspect.iscoroutinefunction(getattr(api, name))
]


SYNC = [
    api.estimate,
    api.history_df,
    api.diff,
    api.links_df,
    api.images_df,
    api.headings_df,
    api.rights_df,
    api.chunks_df,
    api.extract_df,
    api.tables,
    api.record,
    api.replay,
    api.to_parquet,
    api.to_warc,
    api.show,
    api.plot_crawl,
    api.plot_ranks,
    api.gallery,
]


def test_every_async_function_has_blocking_form() -> None:
    assert len(TWINS) == 21


@pytest.mark.parametrize(("blocking", "awaited"), TWINS)
def test_blocking_and_async_forms_have_same_signature(
    blocking: Callable[..., Any], awaited: Callable[..., Any]
) -> None:
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert blocking.__doc__ == awaited.__doc__
    assert blocking.__name__ == awaited.__name__.removeprefix("a")
    first, *rest = inspect.signature(blocking).parameters.values()
    if blocking is why:  # a crawl, and which URL of it
        assert rest.pop(0).name == "url"
    assert all(each.kind is each.KEYWORD_ONLY for each in rest)
    assert first.kind in {first.POSITIONAL_OR_KEYWORD, first.KEYWORD_ONLY}


@pytest.mark.parametrize(("blocking", "awaited"), TWINS)
def test_session_methods_have_same_signature_without_session(
    blocking: Callable[..., Any], awaited: Callable[..., Any]
) -> None:
    for function in (blocking, awaited):
        method = getattr(Session(), function.__name__)
        wanted = dict(inspect.signature(function).parameters)
        del wanted["session"]
        assert dict(inspect.signature(method).parameters) == wanted
        assert method.__doc__ == function.__doc__
        with pytest.raises(TypeError):
            method("q", session=None)


@pytest.mark.parametrize(
    ("function", "group", "others"),
    [
        (api.search_df, options.SearchDfOptions, {"query", "stream", "lazy"}),
        (api.crawl_df, options.CrawlDfOptions, {"url", "stream", "lazy"}),
        (api.creatives_df, options.CreativesDfOptions, {"advertiser", "stream"}),
        (api.scrape_df, options.ScrapeDfOptions, {"urls"}),
        (api.search_job, options.SearchJobOptions, {"query"}),
        (api.crawl_job, options.CrawlJobOptions, {"url"}),
    ],
)
def test_signature_has_types_and_defaults_of_option_group(
    function: Callable[..., Any], group: Any, others: set[str]
) -> None:
    parameters = dict(inspect.signature(function).parameters)
    assert parameters.keys() - group.__annotations__.keys() == others
    for option in option_list(group):
        if option.name in options.UNLISTED:
            assert option.name not in parameters
            continue
        parameter = parameters[option.name]
        assert parameter.annotation == option.annotation
        defaults = {**request_defaults(group), **options.DEFAULTS}
        assert parameter.default == defaults.get(option.name)
        assert option.description


def test_usual_options_come_first_and_the_others_below_headings() -> None:
    text = str(inspect.signature(api.scrape_df))
    assert text.startswith(
        "(urls: 'str | Sequence[str]', *, "
        "formats: 'Sequence[Format] | None' = ('markdown',), "
        "extract: 'type[Any] | Mapping[str, Any] | None' = None, "
        "render: \"bool | Literal['auto'] | None\" = None, refresh: 'bool' = False, "
        "timeout: 'Duration | None' = None, out: 'str | Path | None' = None, "
        "format_options: 'FormatOptionsDict | None' = None, "
    )
    assert text.endswith(", dtype_backend: 'DtypeBackend' = 'pandas') -> 'pd.DataFrame'")


HEADED = [api.crawl_df, api.search_df, api.scrape_df, api.watch_df, api.creatives_df, api.crawl_job]


@pytest.mark.parametrize("function", HEADED)
def test_docstring_has_the_usual_arguments_first_then_headings(
    function: Callable[..., Any],
) -> None:
    usual, *parts = re.split(r"\n\n(.+)\n~+\n", parameters_of(function))
    assert 6 <= len(names_of(usual)) <= 11
    headings = dict(zip(parts[::2], map(names_of, parts[1::2]), strict=True))
    order = [heading for heading in options.HEADINGS if heading in headings]
    assert list(headings) == order
    assert all(heading_of(name) == heading for heading, names in headings.items() for name in names)
    listed = [*names_of(usual), *(name for names in headings.values() for name in names)]
    assert listed == list(inspect.signature(function).parameters)


def test_short_list_of_arguments_has_no_headings() -> None:
    assert "~~" not in (inspect.getdoc(api.export_df) or "")


def test_every_option_is_usual_or_has_a_heading() -> None:
    groups = [each for each in vars(options).values() if is_typeddict(each)]
    names = {
        name
        for group in groups
        if group.__name__.endswith("Options")
        for name in group.__annotations__
    }
    assert "scrape_options" in names
    assert [name for name in names if not heading_of(name) and name not in options.USUAL] == []


def parameters_of(function: Callable[..., Any]) -> str:
    """Return the section "Parameters" of a docstring."""
    doc = inspect.getdoc(function) or ""
    section = doc.partition("Parameters\n----------\n")[2]
    return re.split(r"\n\n\w+\n-+\n", section)[0]


def names_of(section: str) -> list[str]:
    """Return the parameters that a part of the section describes."""
    lines = re.findall(r"^\w[\w, ]*$", section, re.MULTILINE)
    return [name for line in lines for name in line.split(", ")]


@pytest.mark.parametrize("function", [blocking for blocking, _ in TWINS])
def test_every_parameter_is_documented(function: Callable[..., Any]) -> None:
    section = re.sub(r"\n\n.+\n~+\n", "\n", parameters_of(function))
    assert set(names_of(section)) == set(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    "documented",
    [*(blocking for blocking, _ in TWINS), Session, Job, connect, webdata_nb.cache, *SYNC],
)
def test_docstring_examples_run(
    service: WireService, documented: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_BASE_URL", service.url)
    monkeypatch.setenv("WEBDATA_API_KEY", KEY)
    service.has_receipts = service.offers_extended_crawls = True
    names = {name: getattr(api, name) for name in webdata_nb.__all__ if hasattr(api, name)}
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    tests = finder.find(documented, "example", globs={**names, "start_url": SITE})
    results = [runner.run(test) for test in tests]
    session.default_connection().close()
    assert sum(result.attempted for result in results) > 0
    assert sum(result.failed for result in results) == 0
