"""What README states about the code."""

import pathlib
import re

import pytest

from tfagents_system.core.attribute_names import HOOKS
from tfagents_system.core.settings import VARIABLES
from tfagents_system.launch.params_check import PUBLISHED

PROJECT = pathlib.Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text()


def test_hyperparameter_table_states_every_default_and_meaning():
    expected = [f"| `{name}` | `{h.default!r}` | {h.meaning} |" for name, h in PUBLISHED.items()]

    rows = re.findall(r"^\| `[a-z_]+` \| `[^`]*` \| .* \|$", README, re.MULTILINE)

    assert rows == expected


@pytest.mark.parametrize("name", [*VARIABLES, *HOOKS])
def test_every_variable_and_hook_is_explained(name):
    assert f"`{name}" in README


def test_every_file_that_readme_names_exists():
    files = set(re.findall(r"(?:tfagents_system|config|docs|benchmarks)/[\w/]+\.\w+", README))

    assert files, "the pattern finds nothing"
    assert [name for name in sorted(files) if not (PROJECT / name).exists()] == []
