"""Measures content quality on all labelled sets of the corpora, with the corpora's own scorers.

Prints one line for each requirement: the measured figure, the required one and the aim. Then
the pages whose Markdown is empty although more than 100 characters of their text are visible, and
with ``--base COMMIT`` the processor time per page relative to that commit. The exit code is 1 if a
requirement is missed.

Run it from the checkout, with the corpora present, in the environment of the tests::

    python -m benchmarks.content_quality
    python -m benchmarks.content_quality --base COMMIT
    python -m benchmarks.content_quality --half B
"""

from __future__ import annotations

import argparse
import importlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from operator import ge, le
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import content_functions, page_cpu
from benchmarks.main_content import half_of
from tests.quality.test_markdown_fidelity import round_trip_recalls
from tests.requirements import find
from webdata_nb.page.content.parser import parse, remove_all

if TYPE_CHECKING:
    from types import ModuleType

MAX_CPU_RATIO: Final = 1.15
MIN_VISIBLE: Final = 100
"""Characters of visible text above which a page may not be empty."""
INVISIBLE: Final = "script,style,noscript,template,head,title,svg,iframe,object,textarea,select"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A figure that a scorer prints: its set, its name, what is required and the aim."""

    set_name: str
    figure: str
    required: float
    aim: float
    compare: Callable[[float, float], bool] = ge

    def line(self, value: float) -> str:
        """Return the printed line."""
        passed = self.compare(round(value, 4), self.required)
        return (
            f"{self.set_name:13} {self.figure:14} {value:7.4f}  required {self.required:7.4f}"
            f"  aim {self.aim:7.4f}  {'ok' if passed else 'MISSED'}"
        )


REQUIREMENTS: Final = (
    Requirement("wcxb_dev_all", "word_f1", 0.875, 0.900),
    Requirement("wcxb_dev_all", "below_0.05", 0.008, 0.003, le),
    Requirement("wcxb_dev_all", "below_0.5", 0.07, 0.04, le),
    Requirement("aeb", "shingle_f1", 0.970, 0.975),
    Requirement("traf_dev", "snippet_f1", 0.920, 0.935),
    Requirement("fidelity_dev", "code", 25 / 27 - 0.001, 1),
    Requirement("fidelity_dev", "language", 13 / 14 - 0.001, 1),
    Requirement("fidelity_dev", "formulas", 38 / 45 - 0.001, 1),
    Requirement("fidelity_dev", "footnotes", 83 / 106 - 0.001, 83 / 106),
    Requirement("dates_dev", "f1", 0.93, 0.95),
    Requirement("products_dev", "price f1", 0.82, 0.92),
    Requirement("products_dev", "sku f1", 0.77, 0.84),
    Requirement("products_dev", "OutOfStock f1", 0.50, 0.80),
)
ROUND_TRIP: Final = (0.99, 0.995)
"""What a round trip must keep of words, links, code blocks and table rows, and the aim."""
ROUND_TRIP_STRUCTURES: Final = ("words", "links", "code_blocks", "table_rows")
SCORERS: Final = {
    "wcxb_dev_all": ("score", "markdown"),
    "aeb": ("score", "markdown"),
    "traf_dev": ("score", "markdown"),
    "fidelity_dev": ("score_fidelity", "markdown"),
    "dates_dev": ("score_dates", "published"),
    "products_dev": ("score_products", "product"),
}
_FIGURE: Final = re.compile(r"([\w.]+)=([\d.]+)")


def scores(content: Path, name: str, half: str | None) -> dict[str, float]:
    """Return the figures that a set's scorer prints, and print its own lines."""
    scorer, function = SCORERS[name]
    module = import_scorer(content, scorer)
    output = io.StringIO()
    with one_half(module, half), redirect_stdout(output):
        module.main(f"benchmarks.content_functions:{function}", [str(content / f"{name}.tar.gz")])
    print(output.getvalue(), end="", flush=True)
    figures: dict[str, float] = {}
    for line in output.getvalue().splitlines():
        # The lines of one attribute are indented and begin with its name.
        prefix = f"{line.split()[0]} " if line.startswith(" ") else ""
        figures |= {f"{prefix}{key}": float(value) for key, value in _FIGURE.findall(line)}
    return figures


def import_scorer(content: Path, name: str) -> ModuleType:
    """Import a scorer from the folder of the labelled pages."""
    if str(content) not in sys.path:
        sys.path.insert(0, str(content))
    return importlib.import_module(name)


@contextmanager
def one_half(scorer: ModuleType, half: str | None) -> Iterator[None]:
    """Let a scorer load only the pages of one half of a set."""
    load = scorer.load

    def load_half(path: str) -> dict[str, tuple[bytes, dict[str, object]]]:
        return {key: page for key, page in load(path).items() if half_of(key) == half}

    if half is not None:
        scorer.load = load_half  # type: ignore[attr-defined]
    try:
        yield
    finally:
        scorer.load = load  # type: ignore[attr-defined]


def empty_pages(content: Path) -> list[str]:
    """Return the pages without Markdown whose visible text is longer than `MIN_VISIBLE`."""
    load = import_scorer(content, "score").load
    names = []
    for name in SCORERS:
        for key, (html, truth) in load(str(content / f"{name}.tar.gz")).items():
            written = content_functions.markdown(html, truth["url"])
            if not written.strip() and visible_length(html) > MIN_VISIBLE:
                names.append(f"{name}/{key}")
    return names


def visible_length(html: bytes) -> int:
    """Return the characters of a page's text outside scripts and the like."""
    document = parse(html, "utf-8")
    remove_all(document.select(INVISIBLE))
    return len(" ".join(document.text.split()))


def main() -> int:
    """Print all figures; return 1 if a requirement is missed."""
    arguments = parse_arguments()
    corpora = find("corpora")
    if corpora is None:
        sys.exit("the corpora are missing: name their folder in WEBDATA_CORPORA")
    content = corpora / "content"
    names = arguments.sets or list(SCORERS)
    figures = {name: scores(content, name, arguments.half) for name in names}
    lines = [
        requirement.line(figures[requirement.set_name][requirement.figure])
        for requirement in REQUIREMENTS
        if requirement.set_name in figures
    ]
    if not arguments.sets:
        lines += [*round_trip_lines(), empty_line(empty_pages(content))]
    if arguments.base:
        ratios = page_cpu.compare(arguments.base, [content / f"{name}.tar.gz" for name in names])
        lines.append(cpu_line(ratios))
    print("\n".join(lines))
    return int(any(line.endswith("MISSED") for line in lines))


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--base", metavar="COMMIT", help="compare the processor time with it")
    parser.add_argument("--half", choices=("A", "B"), help="only this half of each set")
    parser.add_argument("--sets", nargs="+", choices=list(SCORERS), help="only these sets")
    return parser.parse_args()


def round_trip_lines() -> list[str]:
    """Return the lines of the round trip of whole pages."""
    recalls = round_trip_recalls()
    lines = []
    for name in ROUND_TRIP_STRUCTURES:
        value = sum(recalls[name]) / len(recalls[name])
        lines.append(Requirement("round trip", name, *ROUND_TRIP).line(value))
    return lines


def empty_line(names: list[str]) -> str:
    """Return the line of empty pages."""
    return f"empty pages: {' '.join(names) or 'none'}  {'MISSED' if names else 'ok'}"


def cpu_line(ratios: dict[str, float]) -> str:
    """Return the line of processor times."""
    text = " ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
    passed = ratios["all"] <= MAX_CPU_RATIO
    return (
        f"CPU per page to the base: {text}  at most {MAX_CPU_RATIO}  {'ok' if passed else 'MISSED'}"
    )


if __name__ == "__main__":
    sys.exit(main())
