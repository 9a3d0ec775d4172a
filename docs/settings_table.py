"""Generates the table of hyperparameters in settings.md from their declarations.

Usage: python docs/settings_table.py
"""

import pathlib
import re

from tfagents_system.launch.checks.params_check import PUBLISHED

PAGE = pathlib.Path(__file__).with_name("settings.md")
HEAD = "| name | default | meaning |\n| --- | --- | --- |\n"


def with_table(page: str) -> str:
    """Returns the text of the page with a row for each hyperparameter."""
    rows = [f"| `{name}` | `{h.default!r}` | {h.meaning} |" for name, h in PUBLISHED.items()]
    table = HEAD + "\n".join(rows) + "\n"
    return re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda _: table, page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
