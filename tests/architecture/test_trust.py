"""What the package never does, so that a file or an address cannot make it run foreign code."""

import ast
import functools
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FILES = {
    str(path.relative_to(ROOT)): path for path in sorted((ROOT / "tfagents_system").rglob("*.py"))
}
PICKLES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
DOWNLOADS = {"aiohttp", "ftplib", "gdown", "http", "httpx", "huggingface_hub", "requests",
             "tensorflow_hub", "urllib", "urllib3", "wget", "xmlrpc"}  # fmt: skip
RUNS_CODE = {"__import__", "compile", "eval", "exec", "exec_module", "get_file", "load_library",
             "load_op_library", "read_pickle", "run_module", "run_path", "unsafe_load"}  # fmt: skip
# The params file, which is the user's own code, and the library that kernels/build.py has made from
# the source beside it and that nobody else may change (tests/kernels/test_build.py).
ALLOWED = {
    ("tfagents_system/kernels/ops.py", "tf.load_op_library"),
    ("tfagents_system/export/numpy_runner.py", "runpy.run_path"),  # of the file beside it
    ("tfagents_system/export/policy_file.py", "runpy.run_path"),  # which --policy names
    ("tfagents_system/core/programs/params_loader.py", "compile"),
    ("tfagents_system/core/programs/params_loader.py", "exec"),
}


def imports_of(tree: ast.Module) -> set[str]:
    """Top-level packages that a module imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def calls_of(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def runs_code(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name == "re.compile":
        return False
    allows_pickles = any(
        keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False"
        for keyword in call.keywords
    )
    return name.rpartition(".")[2] in RUNS_CODE or allows_pickles


@functools.cache
def tree_of(file: str) -> ast.Module:
    return ast.parse(FILES[file].read_text())


def test_no_module_reads_pickles_or_downloads():
    found = {file: imports_of(tree_of(file)) & (PICKLES | DOWNLOADS) for file in FILES}
    assert {file: names for file, names in found.items() if names} == {}


def test_what_runs_code_is_what_is_allowed_and_all_of_that_is_needed():
    found = {
        (file, ast.unparse(call.func))
        for file in FILES
        for call in calls_of(tree_of(file))
        if runs_code(call)
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    "source",
    ["eval(text)", "np.load(path, allow_pickle=True)", "pd.read_pickle(path)", "__import__(name)",
     "tf.keras.utils.get_file(name, origin)", "tf.load_op_library(path)"],
)  # fmt: skip
def test_the_search_finds(source):
    assert [runs_code(call) for call in calls_of(ast.parse(source))] == [True]
