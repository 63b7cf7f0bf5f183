"""Reads the instructions of a Dockerfile."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its keyword in capitals, and the rest of its line."""

    keyword: str
    text: str

    @property
    def words(self) -> list[str]:
        """The arguments, of the JSON form if the instruction has it; flags of `--` are left out."""
        start = self.text.find("[")
        if start >= 0 and (self.keyword in {"ENTRYPOINT", "CMD", "HEALTHCHECK"}):
            return [str(word) for word in json.loads(self.text[start:])]
        return [word for word in self.text.split() if not word.startswith("--")]


def instructions(file: Path) -> list[Instruction]:
    """Return the instructions of a Dockerfile, with continued lines joined."""
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [Instruction(*_split(line)) for line in text.splitlines() if line.strip()]


def stages(file: Path) -> list[list[Instruction]]:
    """Return the instructions of each stage; a stage begins with FROM."""
    found: list[list[Instruction]] = []
    for instruction in instructions(file):
        if instruction.keyword == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def _split(line: str) -> tuple[str, str]:
    keyword, _, text = line.strip().partition(" ")
    return keyword.upper(), text.strip()
