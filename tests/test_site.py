"""The site that mkdocs makes of README, docs and code."""

import html
import os
import pathlib
import re
import subprocess
import sys

import pytest
from browser import Browser, install_chromium

from tfagents_system.commands.table import COMMANDS, function_of
from tfagents_system.core.programs.command_line import flags_of
from tfagents_system.core.settings.attribute_names import HOOKS
from tfagents_system.core.settings.variables import VARIABLES
from tfagents_system.core.waiting import wait_until
from tfagents_system.launch.checks.params_check import PUBLISHED

PROJECT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the packages of locks/test.lock are missing")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder], cwd=PROJECT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # --strict: any dead link or missing page
    return folder


@pytest.fixture(scope="module")
def browser():
    install_chromium()
    browser = Browser()
    yield browser
    browser.close()


def text_of(page):
    """Returns what a page of the site says, without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_every_page_of_docs_is_in_the_navigation_of_every_other(site):
    names = {str(path.relative_to(PROJECT / "docs")) for path in (PROJECT / "docs").rglob("*.md")}
    assert len(names) > 10
    links = set(re.findall(r'href="([^":#]+\.html)', (site / "index.html").read_text()))
    assert {name.replace(".md", ".html") for name in names} <= links
    assert [link for link in links if not (site / link).exists()] == []


@pytest.mark.parametrize("page", ["index.html", "results/benchmarks.html"])
def test_pictures_and_films_come_with_the_site(site, page):
    files = re.findall(r'(?:src|href)="([^":]+\.(?:png|mp4|jsonl|csv))"', (site / page).read_text())
    assert files
    assert [name for name in files if not (site / page).parent.joinpath(name).exists()] == []


def test_a_page_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        assert re.findall(r'(?:<script|<img|<link rel="stylesheet)[^>]*"(https?:[^"]*)',
                          page.read_text()) == []  # fmt: skip


# Types a word into the search.
SEARCH = """
const query = document.querySelector("[data-md-component=search-query]");
document.querySelector("#__search").click();
query.focus();
query.value = arguments[0];
query.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
"""
RESULTS = """
return [...document.querySelectorAll(".md-search-result__link")].map((each) => each.href);
"""


@pytest.mark.parametrize("page", ["index.html", "reference/hooks.html"])
def test_search_finds_pages_where_the_site_is_opened_as_a_file(site, browser, page):
    browser.open(site / page)
    browser.run(SEARCH, "bootstrap")
    wait_until(lambda: browser.run(RESULTS), 60, "results of the search")
    found = {link.partition("#")[0] for link in browser.run(RESULTS)}
    assert (site / "operation.html").as_uri() in found  # `sac compare`
    assert browser.errors() == []


# Widths of page and window; of each table the right edge, and that of the box where it scrolls.
TABLES = """
const edge = (element) => element.getBoundingClientRect().right;
return [document.documentElement.scrollWidth, window.innerWidth,
  [...document.querySelectorAll("article table:not([class])")].map((table) => {
    const box = table.closest(".md-typeset__scrollwrap");
    return [edge(table), box && getComputedStyle(box).overflowX === "auto" ? edge(box) : 0];
  })];
"""


def test_tables_wrap_or_scroll_on_a_phone(site, browser):
    num_tables = 0
    browser.narrow(400)
    for page in sorted(site.rglob("*.html")):
        browser.open(page)
        page_width, window, tables = browser.run(TABLES)
        assert (page_width, window) == (400, 400), page
        assert [edges for edges in tables if edges[0] > 400 and not 0 < edges[1] <= 400] == [], page
        num_tables += len(tables)
    assert num_tables > 50


def test_reference_has_every_hook_hyperparameter_and_variable(site):
    hooks = (site / "reference/hooks.html").read_text()
    assert [name for name in HOOKS if f'<h2 id="{name}">' not in hooks] == []
    hyperparameters = text_of(site / "reference/hyperparameters.html")
    for name, declared in PUBLISHED.items():
        meaning = declared.meaning.replace("`", "")
        row = f"\n{name}\n{declared.default!r}\n{declared.allowed}\n{meaning}\n"
        assert row in hyperparameters
    variables = text_of(site / "reference/variables.html")
    assert [
        name for name, meaning in VARIABLES.items() if f"\n{name}\n{meaning}" not in variables
    ] == []


def test_reference_has_every_command_with_its_flags(site):
    text = text_of(site / "reference/commands.html")
    missing = []
    for command in COMMANDS:
        usage = text.partition(f"usage: sac {command} ")[2].partition("usage: sac ")[0]
        flags = [flag for flag in flags_of(function_of(command)) if not flag.startswith("--no")]
        missing += [(command, part) for part in ["Example: ", *flags] if part not in usage]
    assert missing == []
