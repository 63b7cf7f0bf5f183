"""Repeats the call that returned a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.api.crawl import crawl_df
from webdata_nb.toolkit.api.creatives import creatives_df
from webdata_nb.toolkit.api.scrape import scrape_df
from webdata_nb.toolkit.api.search import search_df
from webdata_nb.toolkit.frames import frame
from webdata_nb.toolkit.requests.call_options import CallOptions
from webdata_nb.toolkit.requests.options import Seed

if TYPE_CHECKING:
    import pandas as pd

# The first argument of the function of each kind, and the columns that name several inputs.
_SUBJECTS: Final = {"search": "query", "crawl": "url", "creatives": "advertiser"}
_ARGUMENTS: Final = {"start_url": "url"}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "search": search_df,
    "crawl": crawl_df,
    "creatives": creatives_df,
}
_MASK: Final = "***@"


def repeat_call(
    df: pd.DataFrame, secrets: Mapping[str, Any], options: Mapping[str, Any]
) -> pd.DataFrame:
    """Send the request in the receipt of `df` again, for the inputs that the frame has.

    Raises
    ------
    InvalidArgument
        The receipt is not of a call that can be repeated, or not of this service.
    """
    receipt: Mapping[str, Any] = df.attrs[frame.ATTRS]
    kind = receipt["kind"]
    if kind not in _FUNCTIONS or not isinstance(receipt.get("request"), Mapping):
        raise InvalidArgument(
            f"a frame of kind {kind} cannot be refreshed: only those of search_df, crawl_df, "
            "scrape_df and creatives_df"
        )
    _check_service(receipt, options)
    backend = "pyarrow" if frame.is_arrow_backed(df) else "pandas"
    arguments = {**_arguments(df, receipt), **options, "refresh": True, "dtype_backend": backend}
    _add_secrets(arguments, secrets, kind)
    subject = arguments.pop(_SUBJECTS[kind])
    if kind == "crawl" and _is_of_pages(receipt):
        for name in ("max_pages", "max_depth"):
            arguments.pop(name, None)
        return scrape_df(subject, **arguments)
    repeated: pd.DataFrame = _FUNCTIONS[kind](subject, **arguments)
    return repeated


def _check_service(receipt: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    call = CallOptions.of(session=options["session"])
    service = call.connection.scope(call.settings).service
    if receipt.get("service") != service:
        raise InvalidArgument(
            f"the frame comes from the service {receipt.get('service')}, and this call would ask "
            f"{service}: pass session=connect(...) of the first"
        )


def _arguments(df: pd.DataFrame, receipt: Mapping[str, Any]) -> dict[str, Any]:
    arguments = dict(receipt["request"])
    if receipt["kind"] == "crawl":
        arguments = _crawl_arguments(arguments)
    if receipt["kind"] == "creatives":
        by_id, by_url = arguments.pop("advertiser_id", None), arguments.pop("url", None)
        arguments["advertiser"] = by_id or by_url
    for label in receipt.get("labels", ()):
        values = df[label].drop_duplicates().astype(object)
        arguments[_ARGUMENTS.get(label, label)] = values.where(values.notna(), None).tolist()
    if receipt.get("only_new"):
        arguments["only_new"] = True
    if _MASK in str(arguments.get(_SUBJECTS[receipt["kind"]])):
        raise InvalidArgument("the receipt does not hold the password in the URL: repeat the call")
    return arguments


def _crawl_arguments(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `crawl_df` for the fields of a request in a receipt."""
    arguments = dict(fields)
    arguments.pop("archive_version", None)
    if "warc" in arguments:
        arguments["out"] = arguments.pop("warc")
    if (purpose := arguments.pop("purpose", None)) is not None:
        arguments["rights"] = purpose
    if seeds := [seed for seed in get_args(Seed) if arguments.pop(seed, False)]:
        arguments["seeds"] = seeds
    captures = {name: arguments.pop(name, None) for name in ("source", "max_distance")}
    if "as_of" in arguments:
        arguments["as_of"] = {"date": arguments["as_of"], **captures}
    archive = arguments.pop("archive", None)
    if archive is not None and "url" in arguments:
        arguments["as_of"] = {"source": archive}
    elif archive is not None:
        arguments["url"] = archive
    return arguments


def _add_secrets(arguments: dict[str, Any], secrets: Mapping[str, Any], kind: str) -> None:
    if kind == "creatives" and secrets:
        raise InvalidArgument(f"creatives_df has no {' and '.join(secrets)}")
    if kind == "crawl" and secrets:
        secrets = {"scrape_options": {**arguments.get("scrape_options", {}), **secrets}}
    arguments.update(secrets)


def _is_of_pages(receipt: Mapping[str, Any]) -> bool:
    request = receipt["request"]
    has_labels = bool(receipt.get("labels"))
    return has_labels and request.get("max_pages") == 1 and request.get("max_depth") == 1
