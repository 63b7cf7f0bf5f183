"""Shows help texts and usage errors of the magics in a notebook."""

from __future__ import annotations

from typing import Any


def usage_error(message: str) -> Exception:
    """Return the error that IPython shows as one line, without a traceback."""
    from IPython.core.error import UsageError  # noqa: PLC0415 - only where IPython runs already

    error: Exception = UsageError(message)
    return error


def show(text: str) -> None:
    """Show a text as the output of the cell."""
    import IPython.display as display_module  # noqa: PLC0415 - as above

    display: Any = display_module.display
    display({"text/plain": text}, raw=True)
