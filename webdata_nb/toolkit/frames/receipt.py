"""Builds the receipt that a frame carries under `df.attrs["webdata"]`, as plain JSON values.

pandas copies attrs at every step, so the number of examples is capped here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from webdata_nb.contract import limits, outcomes
from webdata_nb.contract.archives import distance_text
from webdata_nb.contract.outcomes import ClaimChecks, JobStatus
from webdata_nb.contract.replies import CrawlStatus, CreativesReply, SearchStatus
from webdata_nb.contract.url_keys import site_of
from webdata_nb.toolkit.frames.rows import JobOutcome, Row, dumps, row_success

_COUNTED: Final = ("calls", "prompt_tokens", "completion_tokens")


def extractions_of_table(rows: pa.Table) -> dict[str, Any]:
    """Return a summary of what was extracted from the pages of a table."""
    if "metadata" not in rows.column_names:
        return {}
    column = rows["metadata"]
    # Most crawls extract nothing; then no text is decoded.
    texts = column.filter(pc.match_substring(column, '"extract"')).to_pylist()
    return _summary(orjson.loads(text) for text in texts if text is not None)


def _summary(metadata: Iterable[Any]) -> dict[str, Any]:
    found = [each.get("extract") if isinstance(each, Mapping) else None for each in metadata]
    extractions = [each for each in found if isinstance(each, Mapping)]
    if not extractions:
        return {}
    kinds = Counter(
        str(each["error"].get("kind"))
        for each in extractions
        if isinstance(each.get("error"), Mapping)
    )
    usages = [each["usage"] for each in extractions if isinstance(each.get("usage"), Mapping)]
    return {
        "providers": dict(Counter(str(each.get("provider")) for each in extractions)),
        "failed": dict(kinds),
        **{
            name: sum(n for usage in usages if type(n := usage.get(name)) is int)
            for name in _COUNTED
        },
    }


def summed_extractions(*summaries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of summaries, such as those of batches.

    Examples
    --------
    >>> summed_extractions({"failed": {"invalid": 2}, "calls": 3}, {"failed": {"timeout": 1}})
    {'failed': {'invalid': 2, 'timeout': 1}, 'calls': 3}
    """
    total: dict[str, Any] = {}
    for name, value in (item for summary in summaries for item in summary.items()):
        if isinstance(value, Mapping):
            total[name] = dict(Counter(total.get(name, {})) + Counter(value))
        else:
            total[name] = total.get(name, 0) + value
    return total


def extraction_failures(summary: Mapping[str, Any]) -> str:
    """Return the failures of a summary as text; empty if nothing failed.

    Examples
    --------
    >>> extraction_failures({"failed": {"invalid": 2, "timeout": 1}})
    'extraction failed: 2 invalid, 1 timeout'
    """
    failed = summary.get("failed") or {}
    counted = ", ".join(f"{count} {kind}" for kind, count in failed.items())
    return f"extraction failed: {counted}" if counted else ""


_MAX_SUBJECT_CHARS: Final = 80
_MAX_LISTED_ATTEMPTS: Final = 3
_DISTANCE_FIELDS: Final = ("earliest_distance_s", "latest_distance_s")


def of_search(reply: SearchStatus, rows: Sequence[Row], *, query: str = "") -> JobOutcome:
    """Return the outcome of a search from its final status; `query` where the status has none."""
    chain = [attempt.model_dump(mode="json", exclude_none=True) for attempt in reply.fallback_chain]
    return JobOutcome(
        kind="search",
        subject=reply.query or query,
        status=reply.status.value,
        job_id=reply.job_id,
        rows=len(rows),
        failed=sum(row_success("search", row) is False for row in rows),
        total=reply.stated("total_results"),
        job_s=reply.time_taken,
        credits=reply.credits,
        reserved=reply.credits_reserved,
        unlimited=reply.credits_unlimited,
        failure_reason=reply.error or "",
        signature_agent=reply.signature_agent,
        extraction=_summary(row.get("metadata") for row in rows),
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


def of_crawl(reply: CrawlStatus, rows: pa.Table, *, url: str) -> JobOutcome:
    """Return the outcome of a crawl from its final status and its rows."""
    known = (
        rows["capture_distance_s"].to_pylist() if "capture_distance_s" in rows.column_names else []
    )
    distances = [value for value in known if value is not None]
    return replace(
        of_ended_crawl(reply, url=url),
        rows=rows.num_rows,
        failed=count_failed_rows(rows),
        extraction=extractions_of_table(rows),
        capture_distances=(min(distances), max(distances)) if distances else None,
    )


def of_ended_crawl(reply: CrawlStatus, *, url: str) -> JobOutcome:
    """Return the outcome of a crawl from its final status alone, without its rows."""
    crawl_receipt = reply.receipt
    counts = crawl_receipt.counts if crawl_receipt else {}
    return JobOutcome(
        kind="crawl",
        subject=url,
        status=reply.status.value,
        job_id=reply.job_id,
        rows=reply.stated("total_results") or reply.completed_pages,
        failed=sum(n for name, n in counts.items() if name.startswith(outcomes.FAILED)),
        total=reply.stated("total_results"),
        job_s=reply.time_taken,
        credits=reply.credits,
        reserved=reply.credits_reserved,
        unlimited=reply.credits_unlimited,
        failure_reason=reply.error or "",
        counts=counts,
        examples=crawl_receipt.examples if crawl_receipt else {},
        low_confidence=crawl_receipt.low_confidence if crawl_receipt else {},
        folder=(crawl_receipt.folder if crawl_receipt else None) or "",
        signature_agent=crawl_receipt.signature_agent if crawl_receipt else None,
    )


def of_creatives(
    replies: Sequence[CreativesReply], *, advertiser: str, rows: int, failed: int, total: int
) -> JobOutcome:
    """Return the outcome of a creatives listing from all of its replies, and the counts of rows."""
    times = [reply.time_taken for reply in replies if reply.time_taken is not None]
    scope: list[str] = []
    if replies:  # the first one says what the service listed
        first = replies[0]
        scope.append(f"region {first.region or 'not stated'}")
        scope.append(f"date range {first.date_range}" if first.date_range else "all dates")
        scope += [f"source {first.provider}"] if first.provider else []
    return JobOutcome(
        kind="creatives",
        subject=advertiser,
        status="completed",
        job_id=None,
        rows=rows,
        failed=failed,
        listing_scope=", ".join(scope),
        total=total,
        job_s=sum(times) if times else None,
    )


def count_failed_rows(rows: pa.Table) -> int:
    """Count failed rows by `success` and `status`; without `success`, count rows with an error."""
    if "success" not in rows.column_names:
        return rows.num_rows - rows["error"].null_count if "error" in rows.column_names else 0
    flags = [rows["success"].to_pylist()]
    if "status" in rows.column_names:
        flags.append(pc.equal(rows["status"], pa.scalar("failed")).to_pylist())
    return sum(success is False or any(failed) for success, *failed in zip(*flags, strict=True))


def build(
    outcome: JobOutcome,
    *,
    request: Mapping[str, Any],
    service: str,
    started_at: datetime,
    finished_at: datetime,
) -> dict[str, Any]:
    """Return the receipt of a fresh result. `request` must contain no secrets."""
    elapsed = (finished_at - started_at).total_seconds()
    optional = {
        "revalidation": _revalidation(outcome),
        "signature_agent": outcome.signature_agent,
        "captures": dict(zip(_DISTANCE_FIELDS, outcome.capture_distances or (), strict=False)),
        "joined": outcome.joined,
        "warning": warning_text(outcome) or fallback_text(outcome.engines),
        "extraction": dict(outcome.extraction),
        "low_confidence": dict(outcome.low_confidence),
        "folder": outcome.folder,
    }
    receipt = {
        "job_id": outcome.job_id,
        "kind": outcome.kind,
        "status": outcome.status,
        "subject": outcome.subject,
        "service": service,
        "request": dict(request),
        **{name: outcome.engines.get(name) for name in _ENGINE_FIELDS},
        "timings": {"job_s": outcome.job_s, **_timings(started_at, finished_at)},
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
        "asked": outcome.listing_scope,
        **{name: value for name, value in optional.items() if value},
        "line": summary_line(outcome, elapsed),
    }
    return _as_json(receipt)


def _revalidation(outcome: JobOutcome) -> dict[str, Any]:
    """Return which rows the site called unchanged; nothing for a crawl that did not ask."""
    checks = ClaimChecks.of(outcome.counts)
    if checks is None and outcome.since is None:
        return {}
    checks = checks or ClaimChecks(0, 0, 0)
    return {
        "since": outcome.since or None,
        "trusted": checks.trusted,
        "checked": checks.checked,
        "contradicted": checks.contradicted,
        "bound": checks.bound,
        **({"refusal": outcome.since_refusal} if outcome.since_refusal else {}),
    }


def _as_json(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values as a cache file does, so that fresh and cached receipts are equal."""
    converted: dict[str, Any] = orjson.loads(dumps(receipt))
    return converted


def after_retry(
    receipt: Mapping[str, Any], *, rows: int, failed: int, failed_inputs: int, retried: int
) -> dict[str, Any]:
    """Return the receipt of a frame whose failed rows were fetched again.

    `failed_inputs` counts the failed inputs of a call with several.
    """
    counts = {**receipt.get("counts", {}), "rows": rows, "ok": rows - failed, "failed": failed}
    inputs = receipt.get("inputs")
    return {
        **receipt,
        **({"inputs": {**inputs, "failed": failed_inputs}} if inputs else {}),
        "counts": counts,
        "retried": {"rows": retried, "failed": failed},
        "cache": "off",
        "file": None,
        "line": f"{receipt.get('line', receipt['kind'])}; "
        f"{retried} rows tried again, {failed} still failed",
    }


MAX_LISTED_RUNS: Final = 50


@dataclass(frozen=True, slots=True)
class InputRun:
    """The run of one input of several: its labels, its receipt and its error, if any."""

    labels: Mapping[str, str | None]
    attrs: Mapping[str, Any] | None
    error: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the input ended with an error, or all of its rows failed."""
        counts = (self.attrs or {}).get("counts", {})
        return self.error is not None or (counts.get("rows", 0) > 0 and counts.get("ok") == 0)

    def summary(self) -> dict[str, Any]:
        """Return the entry of this run in the receipt of the whole call."""
        attrs = self.attrs or {}
        return {
            **self.labels,
            "job_id": attrs.get("job_id"),
            "status": attrs.get("status", "failed" if self.error else "cancelled"),
            "rows": attrs.get("counts", {}).get("rows", 0),
            "failed": attrs.get("counts", {}).get("failed", 0),
            "cache": attrs.get("cache"),
            **({"joined": True} if attrs.get("joined") else {}),
            "error": self.error,
        }


_STORED: Final = frozenset({"hit", "replay"})


def of_runs(
    kind: str,
    runs: Sequence[InputRun],
    *,
    request: Mapping[str, Any],
    service: str,
    rows: int,
    started_at: datetime,
    finished_at: datetime,
) -> dict[str, Any]:
    """Return the receipt of a call with several inputs: totals, and the first 50 runs.

    `request` is that of the first input; `runs` has what differs between inputs.
    """
    elapsed = (finished_at - started_at).total_seconds()
    labels = list(runs[0].labels)
    errors = sum(run.error is not None for run in runs)
    failed_inputs = sum(run.failed for run in runs)
    states = Counter((run.attrs or {}).get("cache") for run in runs)
    cached, replayed = states["hit"], states["replay"]
    cache = "hit" if cached == len(runs) else "miss"
    known = [run.attrs for run in runs if run.attrs is not None]
    # Of the results that came from the service.
    fresh = [attrs.get("credits") for attrs in known if attrs.get("cache") not in _STORED]
    reported = [used for used in fresh if used is not None]
    ok = sum(attrs["counts"]["ok"] for attrs in known)
    failed_rows = sum(attrs["counts"]["failed"] for attrs in known) + errors
    extraction = summed_extractions(*(attrs.get("extraction", {}) for attrs in known))
    low_confidence = summed_extractions(*(attrs.get("low_confidence", {}) for attrs in known))
    parts = [f"{kind} of {len(runs)} inputs: {_row_counts(rows, ok, failed_rows)}"]
    parts += [f"{failed_inputs} of {len(runs)} inputs failed"] if failed_inputs else []
    parts += [failures] if (failures := extraction_failures(extraction)) else []
    parts += [doubts] if (doubts := outcomes.low_confidence_text(low_confidence)) else []
    parts += [f"{replayed} from the recording" if replayed else f"{cached} from the cache"]
    parts += [f"{elapsed:.1f} s"]
    complete = all(run.attrs is not None and run.attrs["status"] == "completed" for run in runs)
    receipt = {
        "kind": kind,
        "status": "completed" if complete and not errors else "partial",
        "service": service,
        "request": {name: value for name, value in request.items() if name not in labels},
        "labels": labels,
        "inputs": {"total": len(runs), "failed": failed_inputs, "cached": cached},
        "counts": {"rows": rows, "ok": ok, "failed": failed_rows},
        "credits": sum(reported) if reported else None,
        **({"extraction": extraction} if extraction else {}),
        **({"low_confidence": low_confidence} if low_confidence else {}),
        "timings": _timings(started_at, finished_at),
        "runs": [run.summary() for run in runs[:MAX_LISTED_RUNS]],
        "cache": "replay" if replayed else cache,
        "file": None,
        "line": "; ".join(parts),
    }
    return _as_json(receipt)


def of_partitions(
    receipts: Sequence[Mapping[str, Any]],
    *,
    request: Mapping[str, Any],
    inputs: int,
    unfinished: int,
    found: int,
    started_at: datetime,
    finished_at: datetime,
) -> dict[str, Any]:
    """Return the receipt of a call whose partitions have receipts of `of_runs`.

    `unfinished` counts inputs of partitions without a part, `found` those of parts that existed
    before the call. `credits` are those of all parts, whichever call paid them.
    """
    elapsed = (finished_at - started_at).total_seconds()
    first = receipts[0] if receipts else {}
    rows, ok, failed = (
        sum(each["counts"][name] for each in receipts) for name in ("rows", "ok", "failed")
    )
    failed_inputs = sum(each["inputs"]["failed"] for each in receipts)
    reported = [each["credits"] for each in receipts if each["credits"] is not None]
    extraction = summed_extractions(*(each.get("extraction", {}) for each in receipts))
    low_confidence = summed_extractions(*(each.get("low_confidence", {}) for each in receipts))
    kind = first.get("kind", "")
    parts = [f"{kind} of {inputs} inputs: {_row_counts(rows, ok, failed)}"]
    parts += [f"{failed_inputs} of {inputs} inputs failed"] if failed_inputs else []
    parts += [f"{unfinished} of {inputs} inputs not finished"] if unfinished else []
    parts += [failures] if (failures := extraction_failures(extraction)) else []
    parts += [doubts] if (doubts := outcomes.low_confidence_text(low_confidence)) else []
    parts += [f"{found} inputs from existing parts"] if found else []
    parts += [f"{elapsed:.1f} s"]
    complete = not unfinished and all(each["status"] == "completed" for each in receipts)
    runs = [run for each in receipts for run in each["runs"]]
    receipt = {
        "kind": kind,
        "status": "completed" if complete else "partial",
        "service": first.get("service"),
        "request": {k: v for k, v in request.items() if k not in first.get("labels", ())},
        "labels": first.get("labels", []),
        "inputs": {"total": inputs, "failed": failed_inputs, "cached": 0, "found": found},
        "counts": {"rows": rows, "ok": ok, "failed": failed},
        "credits": sum(reported) if reported else None,
        **({"extraction": extraction} if extraction else {}),
        **({"low_confidence": low_confidence} if low_confidence else {}),
        "timings": _timings(started_at, finished_at),
        "runs": runs[:MAX_LISTED_RUNS],
        "cache": "off",
        "file": None,
        "line": "; ".join(parts),
    }
    return _as_json(receipt)


_ENGINE_FIELDS: Final = (
    "engine_requested",
    "engine_used",
    "provider_used",
    "fallback_used",
    "fallback_chain",
    "providers_usable",
    "providers_unusable",
)


def summary_line(outcome: JobOutcome, elapsed_s: float) -> str:
    """Return the outcome as one line of text."""
    return f"{outcome.kind} {shorten(outcome.subject)}: {summary(outcome, elapsed_s)}"


def summary(outcome: JobOutcome, elapsed_s: float) -> str:
    """Return the outcome as one line of text, without the subject.

    The time is that of the job where it began before the call that collects it.
    """
    counts = _row_counts(outcome.rows, outcome.ok, outcome.failed, outcome.total)
    has_completed = outcome.status == JobStatus.COMPLETED
    parts = [counts if has_completed else f"{outcome.status}, {counts}"]
    engines = outcome.engines
    if engines.get("engine_used"):
        route = f"{engines['engine_used']} by {engines.get('provider_used')}"
        parts.append(shorten(f"{route} (fallback)" if engines.get("fallback_used") else route))
    elif unusable := engines.get("providers_unusable"):
        usable = engines.get("providers_usable") or []
        names, count = ", ".join(usable) or "none", len(usable) + len(unusable)
        parts.append(shorten(f"usable {len(usable)} of {count} providers: {names}"))
    if outcome.folder:
        site, _, path = outcome.folder.partition("/")
        has_moved = "://" in outcome.subject and site != site_of(outcome.subject).lower()
        parts.append(
            f"below {site if has_moved else ''}/{path}" if path or has_moved else "whole site"
        )
    checks = ClaimChecks.of(outcome.counts)
    if checks is not None:
        parts.append(checks.text())
    elif outcome.since is not None and outcome.since_refusal:
        parts.append(f"all pages new, as the earlier crawl cannot be used: {outcome.since_refusal}")
    elif outcome.since is not None:
        parts.append(
            "no page was called unchanged" if outcome.since else "no earlier crawl: all pages new"
        )
    if outcome.capture_distances:
        distances = dict.fromkeys(map(distance_text, outcome.capture_distances))
        parts.append(f"captured {' to '.join(distances)}")
    parts += outcomes.skipped_text(outcome.counts)
    if failures := extraction_failures(outcome.extraction):
        parts.append(failures)
    if doubts := outcomes.low_confidence_text(outcome.low_confidence):
        parts.append(doubts)
    if warning := warning_text(outcome):
        parts.append(warning)
    if outcome.credits is not None and not outcome.unlimited:
        parts.append(f"{outcome.credits:g} credit{'' if outcome.credits == 1 else 's'}")
    if outcome.joined:
        parts.append("joined the job of an earlier call")
    parts.append(f"{max(elapsed_s, outcome.job_s or 0.0):.1f} s")
    return "; ".join(parts)


def warning_text(outcome: JobOutcome) -> str:
    """Return why a completed crawl may lack the wanted pages, or "" if nothing suggests that."""
    if outcome.kind != "crawl" or outcome.status != "completed" or not outcome.rows:
        return ""
    if outcome.counts:
        return outcomes.completion_warning(outcome.counts)
    return "" if outcome.ok else f"no page could be read ({outcome.failed} failed)"


def empty_result_reason(outcome: JobOutcome) -> str:
    """Return a sentence that explains why a finished job has no rows."""
    summary = f"{outcome.kind} {shorten(outcome.subject)} gave no rows"
    chain = outcome.engines.get("fallback_chain")
    if chain:
        asked = (
            f"{each.get('provider')}: {each.get('status')}, {each.get('results_count', 0)} rows"
            for each in chain
        )
        return f"{summary}; asked: {', '.join(map(shorten, asked))}"
    if outcome.listing_scope:
        return (
            f"{summary} for {outcome.listing_scope}: other regions, dates or sources may have some"
        )
    if outcome.counts:
        counted = ", ".join(f"{count} {reason}" for reason, count in outcome.counts.items())
        return f"{summary}; URLs seen: {counted}"
    return f"{summary}; the service gave no reason"


def missing_row_reason(receipt: Mapping[str, Any]) -> str:
    """Return why the job of a single page ended without a row."""
    counts = receipt.get("receipt", {}).get("counts", {})
    reasons = [name for name, count in counts.items() if count]
    return f"not fetched: {', '.join(reasons)}" if reasons else "not fetched"


def _row_counts(rows: int, ok: int, failed: int, total: int | None = None) -> str:
    noun = "row" if rows == 1 else "rows"
    of = "" if total is None or total <= rows else f" of {total}"
    return f"{rows}{of} {noun}" + (f" ({ok} ok, {failed} failed)" if failed else "")


def fallback_text(engines: Mapping[str, Any]) -> str:
    """Return which providers were asked before the one that answered; "" without a fallback.

    Examples
    --------
    >>> text = fallback_text(
    ...     {
    ...         "engine_requested": "engine_one",
    ...         "engine_used": "engine_two",
    ...         "provider_used": "brave",
    ...         "fallback_used": True,
    ...         "fallback_chain": [
    ...             {"provider": "serper", "status": "auth", "detail": "the key is not accepted"},
    ...             {"provider": "brave", "status": "ok", "results_count": 9},
    ...         ],
    ...     }
    ... )
    >>> text.partition(": ")[2]
    'engine_one was asked, and serper did not answer (auth: the key is not accepted)'
    """
    used = engines.get("provider_used")
    if not engines.get("fallback_used"):
        return ""
    requested, answering = engines.get("engine_requested"), engines.get("engine_used")
    engine = f" ({answering})" if answering and answering != requested else ""
    failed: list[str] = []
    for entry in engines.get("fallback_chain") or ():
        if entry.get("provider") == used:
            continue
        detail = f": {entry['detail']}" if entry.get("detail") else ""
        is_empty = entry.get("status") == "empty"
        found = "had no results" if is_empty else f"did not answer ({entry.get('status')}{detail})"
        failed.append(f"{entry.get('provider')} {found}")
    more = len(failed) - _MAX_LISTED_ATTEMPTS
    listed = ", ".join(failed[:_MAX_LISTED_ATTEMPTS]) + (f" and {more} more" if more > 0 else "")
    asked = f"{requested or 'another engine'} was asked"
    return (
        f"these are results of {used or 'another provider'}{engine}, a fallback: {asked}"
        f"{', and ' if listed else ''}{listed}"
    )


def shorten(text: str, max_chars: int = _MAX_SUBJECT_CHARS) -> str:
    """Return `text` on one line, without control characters, cut to `max_chars`."""
    clean = re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).strip()
    return clean if len(clean) <= max_chars else f"{clean[: max_chars - 1]}…"


def finished_at(receipt: Mapping[str, Any]) -> datetime:
    """Return when a call ended; now, if its receipt does not say so."""
    text = receipt.get("finished_at") or receipt.get("timings", {}).get("finished_at")
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.now(UTC)


def _timings(started_at: datetime, finished_at: datetime) -> dict[str, Any]:
    return {
        "elapsed_s": round((finished_at - started_at).total_seconds(), 3),
        "started_at": _iso(started_at),
        "finished_at": _iso(finished_at),
    }


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
