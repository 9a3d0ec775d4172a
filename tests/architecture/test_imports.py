"""Who may import whom: what the table in docs/development.md says."""

import ast
import functools
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest

PACKAGE = "tfagents_system"
ROOT = pathlib.Path(__file__).parents[2]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / PACKAGE).rglob("*.py"))
}
TABLE = re.search(
    r"\| in `tfagents_system/` \|.*\n\| --- .*\n((?:\|.*\n)+)",
    (ROOT / "docs/development.md").read_text(),
)
ROWS = [[cell.strip() for cell in row.strip("|").split("|")] for row in TABLE[1].splitlines()]
REVERB_IMPORTERS = {
    f"{PACKAGE}.{name}" for name in ("sac_collect", "sac_replay_buffer", "sac_train")
}
MOST_LINES = 300


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text())


@functools.cache
def imports_of(module: str) -> frozenset[str]:
    """Every module that `module` imports, also inside functions; its own package counts too."""
    names = {module.rpartition(".")[0]} - {""}
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def reachable_from(module: str) -> set[str]:
    """`module` and all modules of the package that importing it may bring in."""
    reached, waiting = set(), [module]
    while waiting:
        module = waiting.pop()
        if module in FILES and module not in reached:
            reached.add(module)
            waiting.extend(imports_of(module))
    return reached


def imports_reverb(module: str) -> bool:
    return any(name.partition(".")[0] == "reverb" for name in imports_of(module))


def test_importing_core_and_launch_brings_in_no_tensorflow():
    # launch may import the algorithm's settings, too
    free = (f"{PACKAGE}.core", f"{PACKAGE}.launch", f"{PACKAGE}.agents.agent_settings")
    modules = [module for module in FILES if module.startswith(free)]
    # Commands that answer wrong arguments; they import it once everything else is right.
    modules += [f"{PACKAGE}.commands.{name}" for name in ("check", "new", "sweep", "train")]
    assert len(modules) > 20
    script = f"""
import importlib, sys
for module in {modules}:
    importlib.import_module(module)
print(sorted({{"tensorflow", "reverb", "tf_agents", "keras"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_only_services_and_three_programs_import_reverb():
    importers = {module for module in FILES if imports_reverb(module)}
    outside = {m for m in importers if not m.startswith(f"{PACKAGE}.services.")}
    assert outside <= REVERB_IMPORTERS
    assert importers - outside  # the walk does find imports


@pytest.mark.parametrize(
    "module", [f"{PACKAGE}.run", f"{PACKAGE}.train_params_base", f"{PACKAGE}.pendulum_params"]
)
def test_what_runs_without_a_replay_server_does_not_reach_reverb(module):
    assert module in FILES
    assert {m for m in reachable_from(module) if imports_reverb(m)} == set()


def test_the_replay_server_reaches_neither_tf_agents_nor_what_runs_params_files():
    reached = reachable_from(f"{PACKAGE}.sac_replay_buffer")
    assert f"{PACKAGE}.services.replay" in reached
    loader = f"{PACKAGE}.core.programs.params_loader"
    assert loader in FILES
    assert loader not in reached
    assert not {m for m in reached for name in imports_of(m) if name.startswith("tf_agents")}


def in_code(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def modules_of(names: list[str]) -> set[str]:
    """The modules that names of the table stand for: `core/`, `core/*.py`, `run.py`."""
    patterns = [f"{name}**/*.py" if name.endswith("/") else name for name in names]
    paths = {path for pattern in patterns for path in (ROOT / PACKAGE).glob(pattern)}
    return {module for module, path in FILES.items() if path in paths}


def rules():
    """Of each module: the modules and, if the table names any, the libraries that it may import."""
    above = set()
    for names, _, allowed in ROWS:
        own = modules_of(in_code(names))
        named = in_code(allowed)
        libraries = {name for name in named if "/" not in name}
        if allowed.startswith("anything"):
            for module in sorted(own):
                yield module, (set(FILES) - own) | {module}, set()
        else:
            may = above if allowed == "the above" else modules_of(named)
            for module in sorted(own):
                yield module, may | own, libraries
        above = above | own


def test_table_of_readme_has_every_module_once():
    modules = sorted(module for module, *_ in rules())
    assert modules == sorted(set(FILES) - {PACKAGE})


def test_each_module_imports_what_the_table_of_readme_allows():
    packages = {name for name in FILES if FILES[name].name == "__init__.py"}
    found = {}
    for module, may_import, libraries in rules():
        own = {name for name in imports_of(module) if name in FILES} - packages - may_import
        others = {name.partition(".")[0] for name in imports_of(module)} - {PACKAGE}
        foreign = others - set(sys.stdlib_module_names) - libraries if libraries else set()
        if own or foreign:
            found[module] = sorted(own | foreign)
    assert found == {}


def test_each_module_has_a_docstring():
    assert [module for module in FILES if not ast.get_docstring(tree_of(module))] == []


def test_each_module_fits_on_a_few_screens():
    num_lines = {module: len(path.read_text().splitlines()) for module, path in FILES.items()}
    assert {module: lines for module, lines in num_lines.items() if lines > MOST_LINES} == {}


def test_no_module_hides_a_top_level_package_when_a_program_is_run_as_a_file():
    """`python tfagents_system/run.py` puts that folder first on the path."""
    own = {path.stem for path in (ROOT / PACKAGE).iterdir() if path.suffix == ".py"}
    own |= {path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py")}
    own.discard("__init__")
    others = set(sys.stdlib_module_names) | set(importlib.metadata.packages_distributions())
    assert own & others == set()
