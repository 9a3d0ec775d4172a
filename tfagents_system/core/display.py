"""Cleans foreign text for display: terminal control codes and passwords are removed."""

import re

# Sequences of ECMA-48: CSI, those that carry a text (OSC, DCS and so on), and short ones.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]?"
)
# In URLs: what is before the last @, for a password may have any sign, but a port is none; and
# what keys of a query say.
_USERINFO = re.compile(r"(?<=://)(?:[^\s/?#@:\[]*:(?!\d+(?:[/?#]|$))\S*@|[^\s/?#]*@)")
_QUERY_SECRET = re.compile(
    r"(?<=[?&;])([\w-]*(?:password|passwd|pwd|token|secret|key|signature)[\w-]*=)[^\s&;#'\"<>]+",
    re.I,
)


def printable(text: object) -> str:
    """Returns the text on one line, without what a terminal would obey instead of showing it."""
    shown = _SEQUENCE.sub("", str(text))
    return "".join(" " if sign.isspace() else sign for sign in shown
                   if sign.isspace() or sign.isprintable())  # fmt: skip


def printable_lines(text: object) -> str:
    """Returns the text likewise, on as many lines as it has."""
    return "\n".join(map(printable, str(text).split("\n")))


def without_secrets(text: str) -> str:
    """Returns the text with URLs that name neither users nor passwords."""
    return _QUERY_SECRET.sub(r"\1...", _USERINFO.sub("", text))
