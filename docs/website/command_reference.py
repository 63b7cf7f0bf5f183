"""The page of the command-line reference, written from the argument parser of `webdata`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from webdata_nb.__main__ import build_parser


def page() -> str:
    """Return the reference as Markdown."""
    parts = [
        "# Command line",
        "Every command of `webdata`, with its arguments and options. Each also has `--help`.",
        *_commands(build_parser(), "webdata"),
    ]
    return "\n\n".join(parts) + "\n"


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Yield the sections of the commands of a parser, in their order."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for word, command in action.choices.items():
                yield from _section(command, f"{name} {word}")


def _section(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    nested = list(_commands(parser, name))
    if _needs_action(parser):
        yield from nested
        return
    yield f"## {name}"
    if parser.description:
        yield " ".join(parser.description.split())
    rows = [
        f"| {_invocation(action)} | {_meaning(parser, action)} |"
        for action in parser._actions  # noqa: SLF001
        if action.dest not in {"help", argparse.SUPPRESS} and action.help is not argparse.SUPPRESS
    ]
    if rows:
        yield "\n".join(["| argument | meaning |", "|---|---|", *rows])
    yield from nested


def _needs_action(parser: argparse.ArgumentParser) -> bool:
    """Whether a command is only a group of others."""
    return any(
        isinstance(action, argparse._SubParsersAction) and action.required  # noqa: SLF001
        for action in parser._actions  # noqa: SLF001
    )


def _invocation(action: argparse.Action) -> str:
    """Return how an argument is written, such as `--max-pages N`."""
    words = action.metavar or action.dest
    value = "|".join(map(str, action.choices)) if action.choices else words
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"`{words if isinstance(words, str) else ' '.join(words)}`"
    takes_value = action.nargs != 0
    names = [f"{each} {value}" if takes_value else each for each in action.option_strings]
    return ", ".join(f"`{each}`".replace("|", "\\|") for each in names)


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return the help text of an argument, with its default filled in."""
    formatter = argparse.HelpFormatter(parser.prog)
    text = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
