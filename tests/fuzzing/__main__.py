"""Fuzzes the parsers of foreign bytes: `python -m tests.fuzzing --minutes 60`.

The minutes are shared by the parsers of `tests/fuzzing/parsers.py`. Each is fuzzed in a process of
its own, with a limit of memory. An input is a finding if the parser raises an error that it does
not declare, gives another result the second time, takes too much processor time, returns more than
its limit, or ends the process. Findings are written to a folder, each kind once, with the input
that shows it: `python -m tests.fuzzing --only NAME --replay FILE` reads it again. The exit code is
1 if there are any.

With Atheris (`pip install atheris`, Apache 2.0) the branches of the package that an input takes
guide the choice of the next ones; without it, inputs are changed seeds. Install it into an
environment of its own, beside the package and its test dependencies.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from tests.fuzzing.parsers import Parser

_FORK: Final = multiprocessing.get_context("fork")
_HANG_S: Final = 60
_MEMORY_MB: Final = 2048
# Of one parser in one run; after so many it is left.
_CRASHES: Final = 5
_EXECUTED: Final = re.compile(r"stat::number_of_executed_units: (\d+)|^#(\d+)\t", re.MULTILINE)
_COVERED: Final = re.compile(r"cov: (\d+)")


def main() -> int:
    """Fuzz, or read one input again; return the exit code."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--minutes", type=float, default=5.0, help="of all parsers (default 5)")
    arguments.add_argument("--only", default="", help="parsers whose name has this")
    arguments.add_argument("--findings", type=Path, help="folder (default: a new one)")
    arguments.add_argument("--corpus", type=Path, help="folder that keeps inputs between runs")
    arguments.add_argument("--seed", type=int, default=0, help="of the inputs")
    arguments.add_argument("--replay", type=Path, help="a file of a finding; needs --only")
    options = arguments.parse_args()
    if options.replay is not None:
        return _replay(options.only, options.replay)
    return _fuzz_all(options)


def _fuzz_all(options: argparse.Namespace) -> int:
    atheris: Any = import_module("atheris") if find_spec("atheris") is not None else None
    with nullcontext() if atheris is None else atheris.instrument_imports(["webdata_nb"]):
        from tests.fuzzing.inputs import check  # noqa: PLC0415 - instrumented
        from tests.fuzzing.parsers import PARSERS  # noqa: PLC0415 - instrumented

        chosen = [parser for parser in PARSERS if options.only in parser.name]
        for parser in chosen:  # imports what is imported late
            for body in parser.seeds():
                check(parser, body)
    findings = options.findings or Path(tempfile.mkdtemp(prefix="fuzzing-"))
    findings.mkdir(parents=True, exist_ok=True)
    share_s = 60 * options.minutes / max(1, sum(parser.weight for parser in chosen))
    print(f"{'parser':28} {'inputs':>10} {'branches':>9} {'findings':>9}", flush=True)
    executed = 0
    for parser in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            corpus = (options.corpus or Path(scratch)) / parser.name
            corpus.mkdir(parents=True, exist_ok=True)
            run = _Run(parser, atheris, findings, corpus, options.seed)
            run.in_processes(share_s * parser.weight)
        found = len(list(findings.glob(f"{run.file_name}-*.txt")))
        executed += run.executed
        print(f"{parser.name:28} {run.executed:10,} {run.covered:9,} {found:9}", flush=True)
    kinds = sorted(findings.glob("*.txt"))
    for each in kinds:
        print(f"{each.with_suffix('')}: {each.read_text('utf-8').partition(chr(10))[0]}")
    print(f"{executed:,} inputs, {len(kinds)} findings")
    return int(bool(kinds))


@dataclass(slots=True)
class _Run:
    """Fuzzes one parser."""

    parser: Parser
    atheris: Any
    findings: Path
    corpus: Path
    seed: int
    executed: int = 0
    covered: int = 0

    @property
    def file_name(self) -> str:
        return self.parser.name.replace(" ", "-")

    def in_processes(self, seconds: float) -> None:
        """Fuzz in a process, and in further ones if an input ends it."""
        end = time.monotonic() + seconds
        for number in range(_CRASHES):
            left = end - time.monotonic()
            if left < 1:
                return
            with tempfile.TemporaryFile() as log:
                process = _FORK.Process(target=self._fuzz, args=(left, self.seed + number, log))
                process.start()
                process.join()
                log.seek(0)
                written = log.read().decode("utf-8", "replace")
            counts = [int(one or other) for one, other in _EXECUTED.findall(written)]
            self.executed += max(counts, default=0)
            self.covered = max([self.covered, *map(int, _COVERED.findall(written))])
            if process.exitcode == 0:
                return
            text = f"the process ended with exit code {process.exitcode}\n\n{written[-8000:]}"
            (self.findings / f"{self.file_name}-ended-{number}.txt").write_text(text, "utf-8")

    def _fuzz(self, seconds: float, seed: int, log: BinaryIO) -> None:
        """Fuzz in this process, by coverage where Atheris is installed."""
        os.dup2(log.fileno(), 2)
        seeds = list(self.parser.seeds())
        if self.atheris is None:
            rng, executed, end = random.Random(seed), 0, time.monotonic() + seconds
            while time.monotonic() < end:
                self._read(self._mutate(rng.choice(seeds), rng))
                executed += 1
            os.write(2, f"stat::number_of_executed_units: {executed}\n".encode())
            return
        for number, body in enumerate(seeds):
            (self.corpus / f"seed-{number}").write_bytes(body)
        flags = (
            f"-max_total_time={max(1, round(seconds))}",
            f"-timeout={_HANG_S}",
            f"-rss_limit_mb={_MEMORY_MB}",
            f"-max_len={self.parser.max_bytes}",
            f"-seed={seed + 1}",
            f"-artifact_prefix={self.findings}/{self.file_name}-",
            "-print_final_stats=1",
            str(self.corpus),
        )
        self.atheris.Setup([sys.argv[0], *flags], self._read, custom_mutator=self._change)
        self.atheris.Fuzz()

    def _read(self, data: bytes) -> None:
        from tests.fuzzing.inputs import check  # noqa: PLC0415 - imported by the parent

        found = check(self.parser, data, cpu_s=self.parser.cpu_s)
        if found is not None:
            found.write(self.findings, self.parser, data)

    def _change(self, data: bytes, max_size: int, number: int) -> bytes:
        """Change an input for Atheris, every second one in its own way."""
        rng = random.Random(number)
        if rng.random() < 0.5:
            return bytes(self.atheris.Mutate(data, max_size))
        return self._mutate(data, rng)[:max_size]

    def _mutate(self, data: bytes, rng: random.Random) -> bytes:
        from tests.fuzzing.inputs import mutate  # noqa: PLC0415 - imported by the parent

        return mutate(data, rng, self.parser)


def _replay(name: str, file: Path) -> int:
    from tests.fuzzing.inputs import check  # noqa: PLC0415 - seconds of imports
    from tests.fuzzing.parsers import PARSERS  # noqa: PLC0415 - as above

    parser = next(parser for parser in PARSERS if parser.name == name)
    found = check(parser, file.read_bytes(), cpu_s=parser.cpu_s)
    print("nothing is wrong" if found is None else f"{found.kind}\n{found.details}")
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(main())
