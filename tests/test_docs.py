"""What README and docs state about the code."""

import ast
import functools
import pathlib
import re

from benchmarks.__main__ import main as run_benchmarks
from docs import settings_table
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.settings.attribute_names import HOOKS
from tfagents_system.core.settings.hyperparameters import hyperparameters
from tfagents_system.core.settings.reward_signals import SIGNALS
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


def test_every_variable_is_explained():
    page = text_of("docs/settings.md")
    assert [name for name in VARIABLES if f"`{name}`" not in page] == []


def test_every_hook_is_explained():
    page = text_of("docs/environments.md")
    assert [name for name in HOOKS if f"`{name}(" not in page] == []


def test_readme_begins_with_a_small_picture_before_any_commit_or_command():
    text = text_of("README.md")
    picture = re.search(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert text[: picture.start()].count("\n") <= 2  # below the title
    assert (PROJECT / picture[1]).stat().st_size < 200_000
    hashes = [each.start() for each in re.finditer(r"\b(?=[a-f]*\d)[0-9a-f]{7}\b|^```", text, re.M)]
    assert picture.end() < min(hashes)


def test_every_command_of_readme_can_be_pasted_as_it_is():
    blocks = re.findall(r"^```bash\n(.*?)^```", text_of("README.md"), re.M | re.S)
    assert len(blocks) >= 4
    placeholders = re.compile(r"<\w+>|\.\.\.|(?<![\w$-])[A-Z]{3,}(?![\w=-])")
    commands = [re.sub(r"[ \t]+# .*", "", line) for block in blocks for line in block.splitlines()]
    assert [command for command in commands if placeholders.search(command)] == []


def test_links_between_pages_show_titles():
    assert found_in_pages(r"\[[^\]\n]*\.md\]\(") == []


def found_in_pages(pattern):
    """Returns (page, what) of all that a pattern finds in any page."""
    return [(page, what) for page in PAGES for what in re.findall(pattern, text_of(page))]


def test_every_file_that_a_page_names_exists():
    names = found_in_pages(r"(?:tfagents_system|config|docs|benchmarks|tests)/[\w/]+\.\w+")
    assert len(names) > 20
    assert [(page, name) for page, name in names if not (PROJECT / name).exists()] == []


def test_every_measurement_that_a_page_names_exists():
    for page, arguments in found_in_pages(r"benchmarks/run\.sh((?: +[\w-]+)*)"):
        with_arguments(run_benchmarks, [f"{page}: benchmarks/run.sh", *arguments.split()])


def test_every_extra_that_a_page_names_exists():
    extras = [
        (page, extra)
        for page, names in found_in_pages(r"setup\.sh --with ([\w,]+)")
        for extra in names.split(",")
    ]
    assert extras
    missing = [named for named in extras if not (PROJECT / f"locks/{named[1]}.lock").exists()]
    assert missing == []


def leads_somewhere(page, target):
    """Returns whether a link of a page, "file#heading", leads to a page and a heading."""
    name, _, anchor = target.partition("#")
    path = (PROJECT / page).parent / name if name else PROJECT / page
    if not path.exists():
        return False
    return not anchor or anchor in headings(path.resolve().relative_to(PROJECT.resolve()))


def test_every_link_leads_to_a_page_and_a_heading():
    links = found_in_pages(r"\]\(([^)#]*(?:#[^)]*)?)\)")
    own = [(page, target) for page, target in links if "://" not in target.partition("#")[0]]
    assert len({page for page, _ in own}) >= 5
    assert [link for link in own if not leads_somewhere(*link)] == []


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


def is_ours(message):
    return any(has_in_order(text, message.split("...")) for text in messages())


def test_each_message_of_troubleshooting_is_one_of_ours():
    quoted = quoted_messages()
    assert len(quoted) >= 50
    assert [message for message in quoted if not is_ours(message)] == []


def test_tables_of_reward_signals_state_every_default_and_meaning():
    page = text_of("docs/sparse_rewards.md")
    declared = {signal: hyperparameters(settings) for signal, settings in SIGNALS.items()}
    assert all(f'\n| `"{signal}"` |' in page for signal in SIGNALS)
    names = {name: known for of_one in declared.values() for name, known in of_one.items()}
    head = f"| setting of a signal | {' | '.join(SIGNALS)} | meaning |"
    rows = [
        f"| `{name}` | "
        + "".join(f"`{of[name].default!r}` | " if name in of else "| " for of in declared.values())
        + f"{known.meaning} |"
        for name, known in names.items()
    ]
    separator = "| --- " * (len(SIGNALS) + 2) + "|"
    assert "\n".join([head, separator, *rows]) in page
