"""The ranks of sites among the results of searches, and how they change from snapshot to snapshot.

A search that failed says nothing about a rank. Its row has an error and no rank, and a comparison
passes it over, as if the snapshot did not have it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, ClassVar, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

import pandas as pd
import pyarrow as pa

from webdata_nb.contract.url_keys import result_key
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.frames import compare, frame, schemas
from webdata_nb.toolkit.frames.compare import Change
from webdata_nb.toolkit.frames.receipt import shorten
from webdata_nb.toolkit.sites.changes_file import AppendedFile

# What tells the ranks of one snapshot apart.
KEYS: Final = ("query", "engine", "language", "country", "site")
_FIELDS: Final[list[pa.Field[Any]]] = [
    *(pa.field(name, schemas.TEXT) for name in KEYS),
    pa.field("status", schemas.TEXT),
    pa.field("rank", pa.int32()),
    pa.field("url", schemas.TEXT),
    pa.field("title", schemas.TEXT),
    pa.field("results", pa.int32()),
    pa.field("num_results", pa.int32()),
    pa.field("provider", schemas.TEXT),
    pa.field("error", schemas.TEXT),
    pa.field("above", schemas.TEXTS),
    pa.field("snapshot", schemas.TEXT),
    pa.field("taken_at", schemas.WHEN),
]
RANKS_SCHEMA: Final = pa.schema(_FIELDS)
RANKS_COLUMNS: Final = """\
================= =================== ==========================================
column            dtype               meaning
================= =================== ==========================================
query             str                 the search terms
engine            str                 the engine that was asked
language, country str                 as given; missing where they were not
site              str                 host and path, without `www.`
status            str                 ranked; not_ranked, if the site has none of
                                      the results; failed, if there are none to
                                      look at
rank              Int32               of the site's best result, from 1; missing
                                      unless ranked
url, title        str                 of that result
results           Int32               how many results there were; missing if the
                                      search failed
num_results       Int32               how many were wanted
provider          str                 whose results these are
error             str                 why the search failed
above             object              list of URLs: the results above the site's,
                                      or all of them if it has none
snapshot          str                 equal in all rows of one call
taken_at          datetime64[us, UTC] when that call began
================= =================== ==========================================
"""


# Sites


_HOST: Final = re.compile(r"[\w-]+(\.[\w-]+)*|\[[0-9a-f:.]+\]")
_RULE: Final = (
    "site must be a host such as 'example.com', which includes its subdomains, or a host and the "
    "start of a path such as 'example.com/docs'"
)


@dataclass(frozen=True, slots=True)
class Site:
    """A host with its subdomains, or the part of it below a path.

    Attributes
    ----------
    name
        The host as it was given, without `www.`, and the path.
    host, port, path
        What URLs are compared with; no port means any, and an empty path every page.
    """

    name: str
    host: str
    port: int | None
    path: str

    @classmethod
    def parse(cls, site: object) -> Site:
        """Return the site that a host or a URL names.

        Raises
        ------
        InvalidArgument
            It names none, or has a part that is not compared.

        Examples
        --------
        >>> Site.parse("https://www.example.com/docs/").name
        'example.com/docs'
        """
        if not isinstance(site, str):
            raise InvalidArgument(f"{_RULE}; it is {format_value(site)}")
        text = site.strip()
        try:
            parts = urlsplit(text if "://" in text else f"https://{text}")
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise InvalidArgument(f"{_RULE}; it is {format_value(site)}") from None
        bare = f"[{host}]" if ":" in host else host.rstrip(".").removeprefix("www.")
        if not _HOST.fullmatch(bare) or parts.scheme not in {"http", "https"} or parts.username:
            hint = "; subdomains are included without '*.'" if host.startswith("*.") else ""
            raise InvalidArgument(f"{_RULE}; it is {format_value(site)}{hint}")
        if parts.query or parts.fragment:
            raise InvalidArgument(
                f"{_RULE}: without '?' and '#', which are not compared; it is {format_value(site)}"
            )
        path = unquote(parts.path).rstrip("/")
        shown = f"{bare}{f':{port}' if port else ''}{path}"
        return cls(shown, _ascii_host(bare), port, path)

    def has(self, url: str) -> bool:
        """Return whether a URL is of this site.

        Examples
        --------
        >>> site = Site.parse("example.com/docs")
        >>> [site.has(f"https://{url}") for url in ("www.example.com/docs/a", "example.com/docs2")]
        [True, False]
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        host = _ascii_host(f"[{host}]" if ":" in host else host.rstrip("."))
        if not f".{host}".endswith(f".{self.host}") or self.port not in (None, port):
            return False
        return f"{unquote(parts.path)}/".startswith(f"{self.path}/")


def _ascii_host(host: str) -> str:
    """Return a host as DNS has it, in which an address in any script has one spelling."""
    try:
        return host.lower().encode("idna").decode()
    except UnicodeError:
        return host.lower()


def parse_sites(site: object) -> list[Site]:
    """Return the sites of an argument, each once.

    Raises
    ------
    InvalidArgument
        See `Site.parse`; or it is an empty list.
    """
    sites = [Site.parse(each) for each in (site if isinstance(site, list) else [site])]
    if not sites:
        raise InvalidArgument(f"{_RULE}, or a list of these; it is an empty list")
    return list({each.name: each for each in sites}.values())


def sites_text(names: Sequence[str]) -> str:
    """Return the name of a site, or how many there are."""
    return names[0] if len(names) == 1 else f"{len(names)} sites"


# Rows


class Searched(NamedTuple):
    """The outcome of one search: what was asked, its results as rows of `search_df`, its error."""

    labels: Mapping[str, str | None]
    results: Sequence[Mapping[str, Any]]
    error: str | None


def searches_of(results: pd.DataFrame, asked: Iterable[Mapping[str, str | None]]) -> list[Searched]:
    """Return the outcome of each search of a call, also of those without a row.

    Parameters
    ----------
    results
        What a search for every combination returned.
    asked
        The labels of the combinations.
    """
    labels = list(asked)
    names = [*labels[0], "rank", "url", "title", "provider", "error"]
    rows: dict[tuple[str | None, ...], list[dict[str, Any]]] = {}
    for values in frame.to_lists(results[names]):
        rows.setdefault(tuple(values[: len(labels[0])]), []).append(
            dict(zip(names, values, strict=True))
        )
    searches = []
    for each in labels:
        found = rows.get(tuple(each.values()), [])
        errors = [row["error"] for row in found if row["rank"] is None and row["error"]]
        searches.append(Searched(each, found, errors[0] if errors else None))
    return searches


def rank_table(
    searches: Iterable[Searched],
    sites: Sequence[Site],
    *,
    engine: str,
    num_results: int,
    snapshot: str,
    taken_at: datetime,
) -> pa.Table:
    """Return the rank of each site in each search.

    Parameters
    ----------
    searches, sites
        The searches of one snapshot, and the sites to look for.
    engine, num_results
        What was asked for where the labels do not say.
    snapshot, taken_at
        The id and the time of the snapshot.
    """
    rows: list[dict[str, Any]] = []
    for labels, results, error in searches:
        found = (row for row in results if row["rank"] is not None)
        ranked = sorted(found, key=itemgetter("rank"))
        for site in sites:
            best = next((row for row in ranked if row["url"] and site.has(row["url"])), None)
            row: dict[str, Any] = {
                "engine": engine,
                **labels,
                "site": site.name,
                "status": "not_ranked" if best is None else "ranked",
                "num_results": num_results,
                "snapshot": snapshot,
                "taken_at": taken_at,
            }
            if error is not None:
                rows.append({**row, "status": "failed", "error": error})
                continue
            if best is not None:
                row |= {name: best[name] for name in ("rank", "url", "title")}
            above = [row["url"] for row in ranked if best is None or row["rank"] < best["rank"]]
            provider = ranked[0]["provider"] if ranked else None
            rows.append({**row, "results": len(ranked), "above": above, "provider": provider})
    return pa.Table.from_pylist(rows, schema=RANKS_SCHEMA)


class RanksFile(AppendedFile):
    """A file of ranks, to which each call appends its snapshot."""

    schema: ClassVar[pa.Schema] = RANKS_SCHEMA
    kind: ClassVar[str] = "ranks"
    maker: ClassVar[str] = "rank_df"


def ranks_receipt(
    searched: Mapping[str, Any], table: pa.Table, whole: pa.Table | None, file: str | None
) -> dict[str, Any]:
    """Return the receipt of a call.

    Parameters
    ----------
    searched
        The receipt of its searches.
    table
        The ranks.
    whole
        All ranks in the file, with those of earlier calls; None without a file.
    file
        The file.
    """
    statuses = Counter(table["status"].to_pylist())
    names = list(dict.fromkeys(map(str, table["site"].to_pylist())))
    sites = sites_text(names)
    providers = Counter(filter(None, table["provider"].to_pylist()))
    wanted, taken_at = table["num_results"][0], cast("datetime", table["taken_at"][0].as_py())
    parts = [f"{statuses['ranked']} ranked"]
    if statuses["not_ranked"]:
        parts.append(f"{statuses['not_ranked']} not among the first {wanted}")
    if statuses["failed"]:
        parts.append(f"{statuses['failed']} failed")
    line = f"ranks of {shorten(sites)}: {', '.join(parts)}"
    if providers:
        line += f"; from {', '.join(f'{name} ({n})' for name, n in providers.most_common())}"
    line += f"; {taken_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if whole is not None and whole.num_rows > table.num_rows:
        line += f"; {rank_changes(frame.build(whole)).attrs[frame.ATTRS]['changes']['text']}"
    return {
        **searched,
        "kind": "ranks",
        "subject": ", ".join(names),
        "counts": {
            "rows": table.num_rows,
            "ok": table.num_rows - statuses["failed"],
            "failed": statuses["failed"],
        },
        "ranks": {name: statuses[name] for name in ("ranked", "not_ranked", "failed")},
        "snapshot": table["snapshot"][0].as_py(),
        "file": file,
        "line": line,
    }


# Ranks of several snapshots


class RankSnapshot(NamedTuple):
    """One snapshot: its time, its id, and its rows by the values of `KEYS`."""

    at: datetime
    id: str
    rows: dict[tuple[str | None, ...], Mapping[str, Any]]


_READ: Final = (*KEYS, "status", "rank", "url", "num_results", "provider", "snapshot", "taken_at")


def has_ranks(df: object) -> bool:
    """Return whether a frame is of `rank_df`."""
    return isinstance(df, pd.DataFrame) and {"site", "status", "snapshot"} <= set(df.columns)


def snapshots_of(df: pd.DataFrame) -> list[RankSnapshot]:
    """Return the snapshots of a frame, oldest first.

    Raises
    ------
    InvalidArgument
        The frame has no ranks.
    """
    what = "rank_df, of history_df(rank_df, ...) or of the file of rank_df"
    plain = frame.require_columns(df, _READ, what)[[*_READ]]
    found: dict[str, RankSnapshot] = {}
    for values in frame.to_lists(plain):
        row = dict(zip(_READ, values, strict=True))
        # Parquet files give integers with missing values as floats.
        row["rank"] = None if row["rank"] is None else int(row["rank"])
        name = str(row["snapshot"])
        snapshot = found.setdefault(name, RankSnapshot(row["taken_at"], name, {}))
        snapshot.rows[tuple(row[key] for key in KEYS)] = row
    return sorted(found.values(), key=lambda each: (each.at, each.id))


def rank_tracks(df: pd.DataFrame) -> list[tuple[str, list[int | str | None]]]:
    """Return the name of each series of ranks, and what each snapshot has of it.

    That is a rank, `not_ranked`, `failed`, or None where the snapshot does not have the series.

    Raises
    ------
    InvalidArgument
        The frame has no ranks.
    """
    snapshots = snapshots_of(df)
    keys = dict.fromkeys(key for each in snapshots for key in each.rows)
    differing = [n for n in range(len(KEYS)) if n == 0 or len({key[n] for key in keys}) > 1]
    tracks = []
    for key in keys:
        rows = [each.rows.get(key) for each in snapshots]
        states = [None if row is None else row["rank"] or row["status"] for row in rows]
        tracks.append((" \u00b7 ".join(str(key[n]) for n in differing if key[n]), states))
    return tracks


def rank_pivot(df: pd.DataFrame, values: str) -> pd.DataFrame:
    """Return a column of ranks with a row for each query, and a column for each snapshot.

    The rows are also of engines, languages, countries and sites where there are several.

    Raises
    ------
    InvalidArgument
        The frame has no ranks, or no such column.
    """
    snapshots = snapshots_of(df)
    if values not in df.columns:
        suggestion = did_you_mean(quoted(closest(values, map(str, df.columns))))
        raise InvalidArgument(
            f"values must be a column of the frame; {format_value(values)} is none{suggestion}"
        )
    differing = [n for n, name in enumerate(KEYS) if n == 0 or len(df[name].drop_duplicates()) > 1]
    places = {each.id: place for place, each in enumerate(snapshots)}
    cells: dict[tuple[Any, ...], list[Any]] = {}
    keys = frame.to_lists(df[[*KEYS]])
    for key, snapshot, value in zip(keys, df["snapshot"], df[values], strict=True):
        row = cells.setdefault(tuple(key[n] for n in differing), [None] * len(snapshots))
        row[places[str(snapshot)]] = value
    names = [KEYS[n] for n in differing]
    index = (
        pd.Index([key[0] for key in cells], name=names[0], dtype="str")
        if len(names) == 1
        else pd.MultiIndex.from_tuples(list(cells), names=names)
    )
    dtype = "Int32" if values == "rank" else df[values].dtype
    times = pd.DatetimeIndex([each.at for each in snapshots], name="taken_at")
    if (seconds := times.floor("s")).is_unique:
        times = seconds
    columns = zip(*cells.values(), strict=True) if cells else ()
    series = {n: pd.Series(list(column), index, dtype=dtype) for n, column in enumerate(columns)}
    table = pd.DataFrame(series, index=index)
    table.columns = times
    return table


def rank_changes(df: pd.DataFrame) -> pd.DataFrame:
    """Return how the last snapshot differs from what was known before.

    A rank is compared with the last one that is known, so a search that failed in between is
    passed over. Where two snapshots looked at different numbers of results, ranks that only one of
    them could see are not compared.

    Raises
    ------
    InvalidArgument
        The frame has no ranks.
    """
    snapshots = snapshots_of(df)
    # The URLs above each rank, by snapshot and key.
    above: dict[tuple[str | None, ...], list[str]] = {}
    if "above" in df.columns:
        keys = frame.to_lists(df[["snapshot", *KEYS]])
        for place, urls in zip(keys, df["above"].tolist(), strict=True):
            # A list, or a numpy array where pandas has read a file; else it is missing.
            if isinstance(urls, Iterable) and not isinstance(urls, str):
                above[tuple(place)] = list(urls)
    changes: list[Change] = []
    moves: list[int | None] = []
    counts = Counter[str]()
    for key, now in snapshots[-1].rows.items() if snapshots else ():
        was = next(
            (
                each.rows[key]
                for each in reversed(snapshots[:-1])
                if key in each.rows and each.rows[key]["status"] != "failed"
            ),
            None,
        )
        if now["status"] == "failed" or was is None:
            counts["failed" if now["status"] == "failed" else "first"] += 1
            continue
        counts["compared"] += 1
        for change in _changes_of(key, was, now, above):
            changes.append(change)
            both = change.field == "rank" and was["rank"] and now["rank"]
            moves.append(was["rank"] - now["rank"] if both else None)
    changed = compare.count_changed_rows([each for each in changes if each.field == "rank"])
    names = list(dict.fromkeys(str(key[-1]) for each in snapshots for key in each.rows))
    sites = sites_text(names)
    text = compare.changes_line(changed)
    since = snapshots[-2].at if len(snapshots) > 1 else None
    if since is None:
        line = f"ranks of {shorten(sites)}: there is no earlier snapshot to compare with"
    else:
        at, before = (f"{each.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" for each in snapshots[:-3:-1])
        line = f"compared {counts['compared']:,} ranks of {shorten(sites)} ({at}) with the last "
        line += f"known before ({before}): {text}"
        line += f"; {counts['failed']:,} failed and not compared" if counts["failed"] else ""
        line += f"; {counts['first']:,} for the first time" if counts["first"] else ""
        text = f"since {before}: {text}"
    built = compare.changes_frame(
        changes,
        dict.fromkeys([*KEYS, "url"], "str"),
        {
            "subject": ", ".join(names),
            "changes": {
                "since": since and since.isoformat(),
                "compared": counts["compared"],
                "ranks": changed,
                "text": text,
            },
            "line": line,
        },
    )
    built["move"] = pd.Series(moves, dtype="Int32")
    return built


_LISTED: Final = 3


def _changes_of(
    key: tuple[str | None, ...],
    was: Mapping[str, Any],
    now: Mapping[str, Any],
    above: Mapping[tuple[str | None, ...], Sequence[str]],
) -> Iterator[Change]:
    """Yield the changes of one rank, and of the result that has it."""
    depth = min(was["num_results"], now["num_results"])
    old, new = was["rank"], now["rank"]
    url = now["url"] or was["url"]
    times: tuple[datetime, datetime] = (was["taken_at"], now["taken_at"])
    is_seen_by_one = (old is None and new and new > depth) or (new is None and old and old > depth)
    if old != new and not is_seen_by_one:
        evidence = compare.other_provider(was["provider"], now["provider"])
        if evidence is None:
            sides = [above.get((row["snapshot"], *key), []) for row in (was, now)]
            is_worse = new is None or (old is not None and new > old)
            fewer, more = sides if is_worse else reversed(sides)
            others = {result_key(each) for each in (*fewer, url)}
            passed = [each for each in more if result_key(each) not in others]
            listed = " ".join(passed[:_LISTED])
            rest = f" and {len(passed) - _LISTED} more" if len(passed) > _LISTED else ""
            word = "now above" if is_worse else "no longer above"
            evidence = f"{word}: {listed}{rest}" if passed else None
        kind = compare.change_kind(old, new)
        texts = (None if old is None else str(old), None if new is None else str(new))
        yield Change(kind, (*key, url), "rank", *texts, evidence, *times)
    if was["url"] and now["url"] and result_key(was["url"]) != result_key(now["url"]):
        yield Change("changed", (*key, url), "url", was["url"], now["url"], None, *times)
