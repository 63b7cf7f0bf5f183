"""What a frame tells of itself under `df.attrs["webdata"]`: small, and JSON all through.

pandas copies attrs at every step, so examples are capped here whatever the service sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from webdata_nb.contract import limits, outcomes
from webdata_nb.contract.replies import CrawlStatus, CreativesReply, SearchStatus
from webdata_nb.frames import extractions
from webdata_nb.frames.rows import Row, dumps

_SUBJECT: Final = 80


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job or call ended, in the terms that all kinds share. Times are seconds."""

    kind: str
    subject: str
    status: str
    job_id: str | None
    rows: int
    failed: int
    total: int | None
    job_s: float | None = None
    credits: float | None = None
    reserved: float | None = None
    unlimited: bool = False
    engines: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    asked: str = ""
    extraction: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> int:
        """Rows that did not fail."""
        return self.rows - self.failed


def of_search(reply: SearchStatus, rows: Sequence[Row]) -> Outcome:
    """Return the outcome that a search's final status tells."""
    chain = [attempt.model_dump(mode="json", exclude_none=True) for attempt in reply.fallback_chain]
    return Outcome(
        kind="search",
        subject=reply.query,
        status=reply.status.value,
        job_id=reply.job_id,
        rows=len(rows),
        failed=_failed(rows),
        total=reply.total_results,
        job_s=reply.time_taken,
        credits=_credits(reply),
        reserved=reply.credits_reserved,
        unlimited=reply.credits_unlimited,
        extraction=extractions.of_rows(rows),
        engines={
            "engine_requested": reply.engine_requested,
            "engine_used": reply.engine_used,
            "provider_used": reply.provider_used,
            "fallback_used": reply.fallback_used,
            "fallback_chain": chain,
            "providers_usable": reply.providers_usable,
            "providers_unusable": reply.providers_unusable,
        },
    )


def _credits(reply: SearchStatus | CrawlStatus) -> float | None:
    """Return what the job cost, where a service tells: the contract has no field for it."""
    if reply.credits is not None:
        return reply.credits
    found = (reply.model_extra or {}).get("credits_used")
    known = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if known and found is not None else None


def of_crawl(reply: CrawlStatus, rows: pa.Table, *, url: str) -> Outcome:
    """Return the outcome that a crawl's final status tells, and its rows."""
    told = reply.receipt
    return Outcome(
        kind="crawl",
        subject=url,
        status=reply.status.value,
        job_id=reply.job_id,
        rows=rows.num_rows,
        failed=failures(rows),
        total=reply.total_results,
        job_s=reply.time_taken,
        credits=_credits(reply),
        reserved=reply.credits_reserved,
        unlimited=reply.credits_unlimited,
        extraction=extractions.of_table(rows),
        counts=told.counts if told else {},
        examples=told.examples if told else {},
    )


def of_creatives(
    replies: Sequence[CreativesReply], rows: Sequence[Row], *, advertiser: str
) -> Outcome:
    """Return the outcome of a listing that took `replies` pages."""
    times = [reply.time_taken for reply in replies if reply.time_taken is not None]
    return Outcome(
        kind="creatives",
        subject=advertiser,
        status="completed",
        job_id=None,
        rows=len(rows),
        failed=sum(bool(row.get("error")) for row in rows),
        asked=_asked_for(replies),
        total=sum(reply.total_results for reply in replies),
        job_s=sum(times) if times else None,
    )


def _asked_for(replies: Sequence[CreativesReply]) -> str:
    """Say what a listing was about, as the service understood it."""
    if not replies:
        return ""
    told = replies[0]
    parts = [f"region {told.region or 'not stated'}"]
    parts += [f"date range {told.date_range}"] if told.date_range else ["all dates"]
    parts += [f"source {told.provider}"] if told.provider else []
    return ", ".join(parts)


def _failed(rows: Sequence[Row]) -> int:
    return sum(row.get("success") is False or row.get("status") == "failed" for row in rows)


def failures(rows: pa.Table) -> int:
    """Return how many rows failed: by their own word, or having an error where none is said."""
    if "success" not in rows.column_names:
        return rows.num_rows - rows["error"].null_count if "error" in rows.column_names else 0
    told = [rows["success"].to_pylist()]
    if "status" in rows.column_names:
        told.append(pc.equal(rows["status"], pa.scalar("failed")).to_pylist())
    return sum(row[0] is False or any(row[1:]) for row in zip(*told, strict=True))


def attrs(
    outcome: Outcome,
    *,
    request: Mapping[str, Any],
    service: str,
    started_at: datetime,
    finished_at: datetime,
) -> dict[str, Any]:
    """Return the receipt of a fresh result; `request` must hold no secret."""
    elapsed = (finished_at - started_at).total_seconds()
    told = {
        "job_id": outcome.job_id,
        "kind": outcome.kind,
        "status": outcome.status,
        "subject": outcome.subject,
        "service": service,
        "request": dict(request),
        **{name: outcome.engines.get(name) for name in _ENGINES},
        "timings": {
            "job_s": outcome.job_s,
            "elapsed_s": round(elapsed, 3),
            "started_at": _iso(started_at),
            "finished_at": _iso(finished_at),
        },
        "counts": {
            "rows": outcome.rows,
            "total": outcome.total,
            "ok": outcome.ok,
            "failed": outcome.failed,
        },
        "credits": outcome.credits,
        "credits_reserved": outcome.reserved,
        "credits_unlimited": outcome.unlimited,
        "receipt": {
            "counts": dict(outcome.counts),
            "examples": {
                reason: list(urls[: limits.RECEIPT_EXAMPLES])
                for reason, urls in outcome.examples.items()
            },
        },
        "asked": outcome.asked,
        **({"warning": warning} if (warning := concern(outcome)) else {}),
        **({"extraction": dict(outcome.extraction)} if outcome.extraction else {}),
        "line": line(outcome, elapsed),
    }
    # As a file gives it back, so that a fresh frame and a cached one tell the same.
    as_read: dict[str, Any] = orjson.loads(dumps(told))
    return as_read


def retried(told: Mapping[str, Any], *, rows: int, failed: int, tried: int) -> dict[str, Any]:
    """Return the receipt of a frame whose failed rows were fetched again."""
    counts = {**told.get("counts", {}), "rows": rows, "ok": rows - failed, "failed": failed}
    whole = f"{tried} rows tried again, {failed} still failed"
    return {
        **told,
        "counts": counts,
        "retried": {"rows": tried, "failed": failed},
        "cache": "off",
        "file": None,
        "line": f"{told.get('line', told['kind'])}; {whole}",
    }


RUNS: Final = 50


@dataclass(frozen=True, slots=True)
class Run:
    """One input of several: its labels, its receipt if it has one, and what went wrong."""

    labels: Mapping[str, str | None]
    attrs: Mapping[str, Any] | None
    error: str | None = None

    @property
    def failed(self) -> bool:
        """Whether nothing came of it: it ended with an error, or none of its rows is good."""
        counts = (self.attrs or {}).get("counts", {})
        return self.error is not None or (counts.get("rows", 0) > 0 and counts.get("ok") == 0)

    def told(self) -> dict[str, Any]:
        """Return what the whole call's receipt tells of it."""
        attrs = self.attrs or {}
        return {
            **self.labels,
            "job_id": attrs.get("job_id"),
            "status": attrs.get("status", "failed" if self.error else "cancelled"),
            "rows": attrs.get("counts", {}).get("rows", 0),
            "failed": attrs.get("counts", {}).get("failed", 0),
            "cache": attrs.get("cache"),
            "error": self.error,
        }


def of_runs(
    kind: str,
    runs: Sequence[Run],
    *,
    request: Mapping[str, Any],
    service: str,
    rows: int,
    started_at: datetime,
    finished_at: datetime,
) -> dict[str, Any]:
    """Return the receipt of several inputs: sums, and the first 50 runs one by one.

    `request` is the first input's; what differs between inputs is in `runs`.
    """
    elapsed = (finished_at - started_at).total_seconds()
    labels = list(runs[0].labels)
    errors = sum(run.error is not None for run in runs)
    failed = sum(run.failed for run in runs)
    cached = sum((run.attrs or {}).get("cache") == "hit" for run in runs)
    known = [run.attrs for run in runs if run.attrs is not None]
    ok = sum(attrs["counts"]["ok"] for attrs in known)
    lost = sum(attrs["counts"]["failed"] for attrs in known) + errors
    extraction = extractions.summed(*(attrs.get("extraction", {}) for attrs in known))
    parts = [f"{kind} of {len(runs)} inputs: {_rows(rows, ok, lost)}"]
    parts += [f"{failed} of {len(runs)} inputs failed"] if failed else []
    parts += [sentence] if (sentence := extractions.sentence(extraction)) else []
    parts += [f"{cached} from the cache", f"{elapsed:.1f} s"]
    whole = all(run.attrs is not None and run.attrs["status"] == "completed" for run in runs)
    told = {
        "kind": kind,
        "status": "completed" if whole and not errors else "partial",
        "service": service,
        "request": {name: value for name, value in request.items() if name not in labels},
        "labels": labels,
        "inputs": {"total": len(runs), "failed": failed, "cached": cached},
        "counts": {"rows": rows, "ok": ok, "failed": lost},
        "credits": _spent(known),
        **({"extraction": extraction} if extraction else {}),
        "timings": {
            "elapsed_s": round(elapsed, 3),
            "started_at": _iso(started_at),
            "finished_at": _iso(finished_at),
        },
        "runs": [run.told() for run in runs[:RUNS]],
        "cache": "hit" if cached == len(runs) else "miss",
        "file": None,
        "line": "; ".join(parts),
    }
    as_read: dict[str, Any] = orjson.loads(dumps(told))
    return as_read


def _spent(known: Sequence[Mapping[str, Any]]) -> float | None:
    """Return what fresh answers cost together, where a service told."""
    fresh = [attrs.get("credits") for attrs in known if attrs.get("cache") != "hit"]
    told = [each for each in fresh if each is not None]
    return sum(told) if told else None


_ENGINES: Final = (
    "engine_requested",
    "engine_used",
    "provider_used",
    "fallback_used",
    "fallback_chain",
    "providers_usable",
    "providers_unusable",
)


def line(outcome: Outcome, elapsed_s: float) -> str:
    """Return the outcome in one line for people."""
    parts = [f"{outcome.kind} {short(outcome.subject)}: {outcome.status}, {_counted(outcome)}"]
    if outcome.engines.get("engine_used"):
        parts.append(_route(outcome.engines))
    if outcome.engines.get("providers_unusable"):
        parts.append(_reachable(outcome.engines))
    skipped = {name: n for name, n in outcome.counts.items() if n and not outcomes.is_row(name)}
    if skipped:
        parts.append("without a row: " + ", ".join(f"{n} {name}" for name, n in skipped.items()))
    if failed := extractions.sentence(outcome.extraction):
        parts.append(failed)
    if warning := concern(outcome):
        parts.append(warning)
    if outcome.credits is not None and not outcome.unlimited:
        parts.append(f"{outcome.credits:g} credit{'' if outcome.credits == 1 else 's'}")
    parts.append(f"{elapsed_s:.1f} s")
    return "; ".join(parts)


def concern(outcome: Outcome) -> str:
    """Return why the rows of a completed crawl may not be what was wanted; "" for nothing."""
    if outcome.kind != "crawl" or outcome.status != "completed" or not outcome.rows:
        return ""
    if outcome.counts:
        return outcomes.shortcoming(outcome.counts)
    return "" if outcome.ok else f"no page could be read ({outcome.failed} failed)"


def why_empty(outcome: Outcome) -> str:
    """Return a sentence that says why a finished job has no rows, as far as the service told."""
    what = f"{outcome.kind} {short(outcome.subject)} gave no rows"
    chain = outcome.engines.get("fallback_chain")
    if chain:
        return f"{what}; asked: {', '.join(map(_asked, chain))}"
    if outcome.asked:
        return f"{what} for {outcome.asked}: that is no word on other regions, dates or sources"
    if outcome.counts:
        counted = ", ".join(f"{count} {reason}" for reason, count in outcome.counts.items())
        return f"{what}; URLs seen: {counted}"
    return f"{what}, and the service says nothing about why"


def why_no_row(told: Mapping[str, Any]) -> str:
    """Return why a job about one page ended without a row, as its receipt tells."""
    reasons = [name for name, count in told.get("receipt", {}).get("counts", {}).items() if count]
    return f"not fetched: {', '.join(reasons)}" if reasons else "not fetched"


def _asked(entry: Mapping[str, Any]) -> str:
    rows = entry.get("results_count", 0)
    return short(f"{entry.get('provider')}: {entry.get('status')}, {rows} rows")


def _counted(outcome: Outcome) -> str:
    return _rows(outcome.rows, outcome.ok, outcome.failed, outcome.total)


def _rows(rows: int, ok: int, failed: int, total: int | None = None) -> str:
    noun = "row" if rows == 1 else "rows"
    of = "" if total in (None, rows) else f" of {total}"
    return f"{rows}{of} {noun}" + (f" ({ok} ok, {failed} failed)" if failed else "")


def _route(engines: Mapping[str, Any]) -> str:
    route = f"{engines['engine_used']} by {engines.get('provider_used')}"
    return short(f"{route} (fallback)" if engines.get("fallback_used") else route)


def _reachable(engines: Mapping[str, Any]) -> str:
    """Say who of the engines' lists could be asked; `providers_unusable` has what others lack."""
    usable, lacking = engines.get("providers_usable") or [], engines["providers_unusable"]
    named = ", ".join(usable) or "nobody"
    return short(f"usable {len(usable)} of {len(usable) + len(lacking)} providers: {named}")


def short(text: str) -> str:
    """Return `text` as part of one line: no control characters, at most 80 characters."""
    clean = re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).strip()
    return clean if len(clean) <= _SUBJECT else f"{clean[: _SUBJECT - 1]}…"


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
