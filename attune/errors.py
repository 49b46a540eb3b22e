"""Errors that are written for the person who reads them.

Everything a user can cause raises a subclass of :class:`AttuneError`. The command line prints its
message on one line and exits with a non-zero code; a traceback always means a bug of ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AttuneError(Exception):
    """A mistake the user can mend; its message says how."""


class DataError(AttuneError):
    """Bad input data: names the file, the line, the value and what was expected."""


class SettingsError(AttuneError):
    """A bad recipe key, option or combination of options."""


class MissingError(AttuneError):
    """Something that has to be there is not: says where it was looked for and how to get it."""


def did_you_mean(name: str, choices: Iterable[str], noun: str) -> str:
    """The text of an "unknown NAME" error.

    >>> did_you_mean("kmep", ["kemp", "moel"], "system")
    "unknown system 'kmep'; did you mean 'kemp'? Available: kemp, moel"
    """
    known = sorted(choices)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    return f"unknown {noun} '{name}'{hint} Available: {', '.join(known) or 'none'}"
