"""Cleans foreign text for display: terminal control codes and passwords are removed."""

import re

# Sequences of ECMA-48: CSI, those that carry a text (OSC, DCS and so on), and short ones.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]?"
)
# Secrets in URLs: everything before the last @, because a password may contain any character,
# and the values of a query's keys.
_USERINFO = re.compile(r"(?<=://)(?:[^\s/?#@:\[]*:(?!\d+(?:[/?#]|$))\S*@|[^\s/?#]*@)")
_QUERY_SECRET = re.compile(
    r"(?<=[?&;])([\w-]*(?:password|passwd|pwd|token|secret|key|signature)[\w-]*=)[^\s&;#'\"<>]+",
    re.I,
)


def printable(text: object) -> str:
    """Returns the text on one line, without control codes that a terminal would execute."""
    shown = _SEQUENCE.sub("", str(text))
    return "".join(" " if sign.isspace() else sign for sign in shown
                   if sign.isspace() or sign.isprintable())  # fmt: skip


def printable_lines(text: object) -> str:
    """Returns the text without such control codes, but with its line breaks."""
    return "\n".join(map(printable, str(text).split("\n")))


def without_secrets(text: str) -> str:
    """Returns the text with users, passwords and keys removed from its URLs."""
    return _QUERY_SECRET.sub(r"\1...", _USERINFO.sub("", text))
