"""What README and docs state about the code."""

import ast
import functools
import pathlib
import re

import pytest

from benchmarks.__main__ import main as run_benchmarks
from docs import settings_table
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.settings.attribute_names import HOOKS
from tfagents_system.core.settings.variables import VARIABLES
from tfagents_system.launch.checks.params_check import PUBLISHED

PROJECT = pathlib.Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *sorted(f"docs/{path.name}" for path in (PROJECT / "docs").glob("*.md")),
]


def text_of(page):
    return (PROJECT / page).read_text()


def headings(page):
    """Returns the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_hyperparameter_table_states_every_default_and_meaning():
    page = text_of("docs/settings.md")
    assert len(re.findall(r"^\| `[a-z_]+` \| `[^`]*` \| .* \|$", page, re.M)) == len(PUBLISHED)
    assert page == settings_table.with_table(page), "run python docs/settings_table.py"


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_is_explained(name):
    assert f"`{name}`" in text_of("docs/settings.md")


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_explained(name):
    assert f"`{name}(" in text_of("docs/environments.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page):
    names = re.findall(
        r"(?:tfagents_system|config|docs|benchmarks|tests)/[\w/]+\.\w+", text_of(page)
    )

    assert [name for name in sorted(set(names)) if not (PROJECT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_measurement_and_extra_that_a_page_names_exists(page):
    for arguments in re.findall(r"benchmarks/run\.sh((?: +[\w-]+)*)", text_of(page)):
        with_arguments(run_benchmarks, ["benchmarks/run.sh", *arguments.split()])
    for extras in re.findall(r"setup\.sh --with ([\w,]+)", text_of(page)):
        for extra in extras.split(","):
            assert (PROJECT / f"locks/{extra}.lock").exists(), extra


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_page_and_a_heading(page):
    for target in re.findall(r"\]\(([^)#]*(?:#[^)]*)?)\)", text_of(page)):
        name, _, anchor = target.partition("#")
        if "://" in name:
            continue
        path = (PROJECT / page).parent / name if name else PROJECT / page
        assert path.exists(), target
        if anchor:
            assert anchor in headings(path.resolve().relative_to(PROJECT.resolve())), target


def test_the_pages_have_links():
    assert sum("](" in text_of(page) for page in PAGES) >= 5


@functools.cache
def messages():
    """Every text in the package, with an ellipsis for each value put into it, and the scripts."""
    scripts = [*PROJECT.glob("*.sh"), *(PROJECT / "tfagents_system").rglob("*.sh")]
    texts = [path.read_text().replace("\\\n", "") for path in scripts]
    for path in (PROJECT / "tfagents_system").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else "..." for v in node.values)
                texts.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def test_no_message_advises_to_remove_what_may_be_whole():
    """Only what we build ourselves, or a line of what the user has written."""
    allowed = ("build it with", "from provenance.json", "Remove the import")
    advice = re.compile(r"(?i)\b(or|to|;|,|and|\.)? ?(remove|delete) (it|that|this|the|them)\b")
    found = [text for text in messages() if "\n" not in text and advice.search(text)]
    assert [text for text in found if not any(part in text for part in allowed)] == []
    assert found  # those that are allowed


def has_in_order(text, parts):
    end = 0
    for part in parts:
        if (begin := text.find(part, end)) < 0:
            return False
        end = begin + len(part)
    return True


def quoted_messages():
    """What the tables of docs/troubleshooting.md that begin with "you see" quote there."""
    tables = re.findall(
        r"^\| you see \|.*\n\| --- .*\n((?:\|.*\n)+)", text_of("docs/troubleshooting.md"), re.M
    )
    cells = [row.split(" | ")[0] for table in tables for row in table.splitlines()]
    return [message for cell in cells for message in re.findall("`([^`]+)`", cell)]


@pytest.mark.parametrize("message", quoted_messages())
def test_a_message_of_troubleshooting_is_one_of_ours(message):
    assert any(has_in_order(text, message.split("...")) for text in messages())


def test_troubleshooting_quotes_messages():
    assert len(quoted_messages()) >= 50
