"""Single lines of text in a notebook: what a magic says of itself, and what was wrong with it."""

from __future__ import annotations

from typing import Any


def usage_error(message: str) -> Exception:
    """Return the error that IPython shows as one line, without a traceback."""
    from IPython.core.error import UsageError  # noqa: PLC0415 - only where IPython runs already

    made: Exception = UsageError(message)
    return made


def shown(text: str) -> None:
    """Show a text as the output of the cell."""
    import IPython.display as screen  # noqa: PLC0415 - as above

    display: Any = screen.display
    display({"text/plain": text}, raw=True)
