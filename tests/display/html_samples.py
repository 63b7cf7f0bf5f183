"""Samples of all HTML that the package renders, with given texts in every field of every table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ipywidgets  # type: ignore[import-untyped]
import pandas as pd

from webdata_nb import gallery, show
from webdata_nb.contract.events import Progress
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.toolkit.api import Session, connect
from webdata_nb.toolkit.cache.result_cache import JobRef
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.display.bars import Inputs, View
from webdata_nb.toolkit.frames import frame, rows, schemas
from webdata_nb.toolkit.frames.schemas import TableName
from webdata_nb.toolkit.jobs.job import Job


def markups(texts: list[str], *tables: TableName) -> list[str]:
    """Return everything that HTML is made of here, with `texts` in every field."""
    return [*of_tables(texts, *tables), *others(texts)]


def of_tables(texts: list[str], *tables: TableName) -> list[str]:
    """Return the frames as we draw them, and as pandas does."""
    return [*shown(texts, *tables), *(_of_pandas(df) for df in frames(texts, tables))]


def shown(texts: list[str], *tables: TableName) -> list[str]:
    """Return the frames as we draw them alone."""
    return [show(each, max_rows=len(texts))._repr_html_() for each in frames(texts, tables)]


def others(texts: list[str]) -> list[str]:
    """Return what is drawn besides frames: galleries, bars, panels, jobs."""
    made = [gallery(creatives(texts), max_cards=len(texts))._repr_html_()]
    for text in texts:
        made.append(bars.object_bundle(text, text, text)["text/html"])
        made += _of_progress(text)
    with connect() as session:
        return made + [_of_job(text, session) for text in texts]


def _of_job(text: str, session: Session) -> str:
    progress = Progress(job_id=text, type="crawl", status=JobStatus.COMPLETED, message=text)
    job = Job(JobRef(text, "crawl", text, "digest", (text,)), session, progress)
    return job._repr_mimebundle_()["text/html"]


def _of_progress(text: str) -> list[str]:
    """Return the bar and the panel's widgets, before the end and after it."""
    running = View(text, 3, status=text, unit=text, failed=1, failures={text: 1}, name=text)
    views = [running, View(text, 3, unit=text, ending="failed", name=text, inputs=Inputs(2))]
    made = [bars.render_html(view) for view in views]
    widgets = bars.Widgets(ipywidgets, running, can_cancel=True)
    for view in views:
        widgets.show(view)
        made += [widgets.title.value, widgets.words.value]
    widgets.close()
    return [*made, bars.without_widgets(text)]


def _of_pandas(df: Any) -> str:
    """Return what a notebook shows of a frame without us, but for the style that pandas adds."""
    with pd.option_context("display.max_rows", None, "display.max_columns", None):
        return re.sub(r"\A<div>\n<style scoped>[^<]*</style>", "<div>", df._repr_html_())


def frames(texts: list[str], tables: Sequence[TableName]) -> list[pd.DataFrame]:
    listed = [creatives(texts)]
    for name in tables or schemas.SCHEMAS:
        fields = schemas.SCHEMAS[name]
        made = [{field.name: _holding(field, text) for field in fields} for text in texts]
        attrs = {"kind": name, "line": " ".join(texts)}
        listed.append(frame.build(rows.to_table(name, made), attrs=attrs))
    foreign = pd.DataFrame({text: [text] for text in texts})
    foreign.attrs = {"webdata": {"kind": "search", "line": texts[0]}}
    return [*listed, foreign]


def _holding(field: Any, text: str) -> Any:
    if schemas.kind(field) == schemas.JSON:
        return [{"src": text, text: [text]}, text]
    return [text, text] if field.type == schemas.TEXTS else text


def creatives(texts: list[str]) -> pd.DataFrame:
    made = [
        {
            **{field.name: text for field in schemas.SCHEMAS["creatives"]},
            "preview": {"url": text, "file": text, "sha256": text, "error": text},
            "assets": [{"url": text, "file": text, "sha256": text}],
        }
        for text in texts
    ]
    return frame.build(rows.to_table("creatives", made), attrs={"kind": "creatives", "line": "x"})
