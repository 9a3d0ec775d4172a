"""Follows the lists of CONTRIBUTING.md in a copy of the project, and looks at the CHANGELOG."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from tfagents_system.core.checkout import PROJECT, version

TEXT = (PROJECT / "CONTRIBUTING.md").read_text()
# What a reader and a test see of settings, variables and commands.
REFERENCE = """
import importlib.util, sys
sys.path[:0] = [".", "tests"]
spec = importlib.util.spec_from_file_location("site_pages", "docs/site_pages.py")
pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pages)
print(pages.hyperparameters_page(), pages.variables_page(), pages.commands_page())
"""
DOCS = """
import sys
sys.path[:0] = [".", "tests"]
import test_docs
test_docs.test_hyperparameter_table_states_every_default_and_meaning()
test_docs.test_every_variable_is_explained()
"""

# A user's params of the new algorithm, and a train step.
ALGORITHM_IN_USE = """
import sys
import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tfagents_system.commands.train import train
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.data.transition import Transition
from tfagents_system.launch.checks.params_check import PUBLISHED
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    algorithm = "absac"
    absac_scale = 2.0
    tqc_quantiles = 7

    def env_ctor(self, *args, seed=None, **kwargs):
        raise AssertionError("not needed here")

params = TrainParams({"horizon": 10})
print(params.check("params.py"))
print("Absolute SAC" in PUBLISHED["algorithm"].meaning)
print("2 for absac" in PUBLISHED["policy_delay"].meaning)
observation = tf.TensorSpec([3], tf.float32)
action = tensor_spec.BoundedTensorSpec([2], tf.float32, -1, 1)
train_step = tf.Variable(0, dtype=tf.int64)
agent = params.agent_ctor(train_step, observation, action, ts.time_step_spec(observation))
one = tf.ones([4])
batch = Transition(one, tf.ones([4, 3]), tf.zeros([4, 2]), one, 0 * one, tf.ones([4, 3]))
loss, info = agent.train(batch)
print(agent.algorithm, agent.rule.policy_delay, float(info["td_target"]))
with_arguments(train, ["sac train", "--env", "Pendulum-v1", "--algo", "absac"])
"""


def section(title: str) -> str:
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)[1]


def examples(title: str) -> list[str]:
    """The blocks of a section's list, as they go into files."""
    blocks = re.findall(r"^   ```\w+\n(.*?)^   ```", section(title), re.M | re.S)
    return [textwrap.indent(textwrap.dedent(block), indent(block)) for block in blocks]


def indent(block: str) -> str:
    """What a block has more than the three spaces of its list."""
    return re.match(" *", block)[0][3:]


def insert(file: pathlib.Path, after: str, text: str) -> None:
    """Puts `text` after the last line that `after` finds."""
    content = file.read_text()
    end = max(found.end() for found in re.finditer(after, content, re.M))
    file.write_text(content[:end] + text + content[end:])


@pytest.fixture
def project(tmp_path) -> pathlib.Path:
    copy = tmp_path / "project"
    ignored = shutil.ignore_patterns("__pycache__", "results", "logs", ".*")
    for name in ("tfagents_system", "docs", "benchmarks"):
        shutil.copytree(PROJECT / name, copy / name, ignore=ignored)
    (copy / "tests").mkdir()
    for name in ("README.md", "pyproject.toml", "tests/test_docs.py"):
        shutil.copy(PROJECT / name, copy / name)
    return copy


def python(project: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=project, env=os.environ | {"PYTHONPATH": str(project)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_every_file_and_folder_that_the_lists_name_is_there():
    names = set(re.findall(r"`([\w./]+/[\w.]*|\w+\.(?:toml|md))`", TEXT))
    assert len(names) > 15
    assert [name for name in names if not (PROJECT / name).exists()] == []


def test_a_hyperparameter_and_a_variable_by_the_list_are_in_checks_docs_and_reference(project):
    (field, row), (variable, its_row) = examples("A hyperparameter"), examples("A variable")
    code = project / "tfagents_system/core"
    insert(code / "settings/training_settings.py", r"^    train_batch_size: .*\n", field)
    insert(code / "settings/variables.py", r'^    "SAC_MLFLOW": .*\n', variable)

    settings = project / "docs/settings.md"
    rows = [(r"^\| `train_batch_size` .*\n", row), (r"^\| .*`SAC_MLFLOW` .*\n", its_row)]
    for after, its_text in rows:
        assert "AssertionError" in python(project, "-c", DOCS).stderr  # a row is missing
        insert(settings, after, its_text)
    done = python(project, "-c", DOCS)
    assert done.returncode == 0, done.stderr

    page = python(project, "-c", REFERENCE).stdout
    assert "| `greeting_period_itrs` | `10` | an integer &gt;= 1" in page
    assert "| `SAC_GREETING` | what the run says" in page
    module = ["-m", "tfagents_system", "train", "--env", "Pendulum-v1", "--set"]
    done = python(project, *module, "greeting_period_itrs=0")
    assert (done.returncode, "greeting_period_itrs is 0; expected" in done.stderr) == (78, True)


def test_a_command_by_the_list_runs_and_is_in_help_completion_and_reference(project):
    module, row = examples("A command")
    (project / "tfagents_system/commands/greet.py").write_text(module)
    insert(project / "tfagents_system/commands/table.py", r'^    "prune": .*\n', row)

    done = python(project, "-m", "tfagents_system", "greet", "World", "--times", "2")
    assert (done.stdout, done.returncode) == (2 * "Hello, World.\n", 0), done.stderr
    done = python(project, "-m", "tfagents_system", "greet", "World", "--times", "0")
    assert (done.returncode, "times" in done.stderr) == (78, True)
    assert re.search("^  greet +greet somebody$",
                     python(project, "-m", "tfagents_system", "--help").stdout, re.M)  # fmt: skip
    completion = python(project, "-m", "tfagents_system", "completion").stdout
    assert "greet) words='--help --times'" in completion
    page = python(project, "-c", REFERENCE).stdout
    assert "## sac greet\n\nTo greet somebody." in page and "The person to greet." in page


def test_the_newest_entry_of_the_changelog_is_this_version():
    headings = re.findall(r"^## \[(.+?)\](.*)$", (PROJECT / "CHANGELOG.md").read_text(), re.M)
    (unreleased, _), *released = headings
    assert (unreleased, released[0][0]) == ("Unreleased", version())
    assert all(re.fullmatch(r" - \d{4}-\d\d-\d\d", date) for _, date in released)
    numbers = [tuple(map(int, name.split("."))) for name, _ in released]
    assert numbers == sorted(numbers, reverse=True)


def test_an_algorithm_costs_three_files_and_a_row(project):
    own = project / "tfagents_system/agents/absac"
    own.mkdir()
    (own / "__init__.py").write_text('"""SAC whose critics have an absolute loss."""\n')
    for name, text in zip(
        ("settings", "losses", "algorithm"), examples("An algorithm"), strict=True
    ):
        (own / f"{name}.py").write_text(text)
    table = project / "tfagents_system/agents/table.py"
    imported = "from tfagents_system.agents.absac.settings import ABSAC, AbsacSettings\n"
    insert(table, r"^from .* import DDPG\n", imported)
    insert(table, r"TD3, DDPG(?=\))", ", ABSAC")
    insert(table, r"^class OwnSettings\(\n    ", "AbsacSettings, ")

    done = python(project, "-c", ALGORITHM_IN_USE)

    unused = "params.py: tqc_quantiles is 7, which has no effect: algorithm is 'absac'."
    expected = [f'["{unused}"]', "True", "True", "absac 2 1.0"]
    assert done.stdout.splitlines() == expected, done.stderr
