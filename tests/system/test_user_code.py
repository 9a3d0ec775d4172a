"""One awkward params file through all commands that run it: it sees the same everywhere."""

import json
import os
import subprocess
import sys

import pytest
from commands.test_train import REPO, sac
from system.tiny_run import TINY

from tfagents_system.core.process.process_start import launch_arguments

pytestmark = pytest.mark.system

PARAMS = """
import dataclasses
import json
import multiprocessing
import os
import pathlib
import pickle
import sys

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

import agents  # like packages and programs of this project
import networks.arm
import run
import workers
from environments import arena  # a folder without __init__.py
from tfagents_system.train_params_base import TrainParamsBase

HERE = pathlib.Path(__file__).parent
SCALE = json.loads((HERE / "scale.json").read_text())


@dataclasses.dataclass
class Payload:
    value: int


def in_child(payload):
    return payload.value + workers.ONE, seen()


def seen():
    return {
        "name": __name__,
        "file": __file__,
        "neighbours": [m.__file__ for m in (agents, networks.arm, run, workers, arena)],
        "folder": os.getcwd(),
        "argv": sys.argv,
        "path": sys.path,
        "class": f"{Payload.__module__}.{Payload.__qualname__}",
    }


def record(**fields):
    with open(os.environ["TAPE"], "a") as tape:
        tape.write(json.dumps(fields) + "\\n")


class AwkwardEnv(py_environment.PyEnvironment):
    has_recorded = False

    def __init__(self):
        super().__init__()
        self._num_steps = 0
        self.relative = pathlib.Path("relative.txt").read_text()
        if not AwkwardEnv.has_recorded:
            AwkwardEnv.has_recorded = True
            assert pickle.loads(pickle.dumps(Payload(1))) == Payload(1)
            with multiprocessing.get_context(os.environ["METHOD"]).Pool(1) as pool:
                value, child = pool.apply(in_child, (Payload(41),))
            assert value == 42
            _, _, module, *arguments = pathlib.Path("/proc/self/cmdline").read_text().split("\\0")
            command = [module, *arguments[: module == "tfagents_system"]]
            record(program=" ".join(command), **seen())
            record(program="a child", **child)

    def observation_spec(self):
        return array_spec.BoundedArraySpec([2], np.float32, -10.0, 10.0, "observation")

    def action_spec(self):
        return array_spec.BoundedArraySpec([1], np.float32, -1.0, 1.0)

    def _observe(self):
        return np.full(2, self._num_steps / 10, np.float32)

    def _reset(self):
        self._num_steps = 0
        return ts.restart(self._observe())

    def _step(self, action):
        self._num_steps += 1
        if self._num_steps == 10:
            return ts.truncation(self._observe(), SCALE)
        return ts.transition(self._observe(), SCALE)


class TrainParams(TrainParamsBase):
    def env_ctor(self, *args, seed=None, **kwargs):
        return AwkwardEnv()
"""
NEIGHBOURS = {
    "scale.json": "0.5",
    "agents.py": "",
    "networks/__init__.py": "",
    "networks/arm.py": "from . import motor\n",
    "networks/motor.py": "",
    "run.py": "",
    "workers.py": "ONE = 1\n",
    "environments/arena.py": "",
}


@pytest.fixture
def awkward(tmp_path):
    """The folder of the user's params, and another one, in which commands are given."""
    lab, work = tmp_path / "my lab", tmp_path / "work"
    for name, text in NEIGHBOURS.items():
        (lab / name).parent.mkdir(parents=True, exist_ok=True)
        (lab / name).write_text(text)
    work.mkdir()
    (lab / "my-arm.py").write_text(PARAMS)
    (lab / "config.json").write_text('{"horizon": 10}')
    (work / "relative.txt").write_text("found")
    (work / "v.sh").write_text(
        f"SAC_EXP_NAME=arm\nSAC_PARAMS='{lab}/my-arm.py'\nSAC_CONFIG='{lab}/config.json'\n"
    )
    for name in ("random.py", "queue.py", "tree.py", "gin.py"):  # nobody asks for them
        (work / name).write_text("raise ImportError('not for you')\n")
    return lab, work


SETTINGS = ["--set", *TINY, "num_iter=1"]
COMMANDS = [
    ["check", "v.sh", *SETTINGS, "--num_episodes=1"],
    ["train", "v.sh", "--seed=1", *SETTINGS],
    ["eval", "logs/arm", "--num_episodes=1", "--novideo"],
    ["export", "logs/arm", "--to=numpy"],
    ["report", "logs/arm", "--film"],
    ["verify", "logs/arm", "--num_iter=1"],
    ["sweep", "v.sh", "--grid", "discount=0.9", "--name=swept"],
]


def views(work, tape, commands, method):
    """What the params file saw in each program and its children, by what it saw."""
    environ = {"TAPE": str(tape), "METHOD": method, "SAC_DETERMINISTIC": "1"}
    environ["SAC_GIN_BINDINGS"] = "\n".join(f"TrainParams.{each}" for each in SETTINGS[1:])
    for arguments in commands:
        code, out, err = sac(work, *arguments, timeout=250, **environ)
        assert code == 0, (arguments, out, err)
    found = {}
    for record in map(json.loads, tape.read_text().splitlines()):
        program = record.pop("program")
        # setuptools adds its own folder at the end, where somebody imports pkg_resources.
        record["path"] = [entry for entry in record["path"] if "_vendor" not in entry]
        found.setdefault(json.dumps(record), set()).add(program)
    return [(json.loads(view), programs) for view, programs in found.items()]


@pytest.mark.timeout(900)
def test_user_code_sees_the_same_in_every_command_and_program(awkward, tmp_path):
    lab, work = awkward
    seen = views(work, tmp_path / "tape", COMMANDS, "spawn")
    assert len(seen) == 1, seen
    ((view, programs),) = seen
    module = "tfagents_system"
    expected = {*(f"{module} {name}" for name in ("check", "eval", "export", "report")),
                *(f"{module}.{name}" for name in ("sac_train", "sac_collect")),
                f"{module}.commands.checks.learner_speed", "a child"}  # fmt: skip
    assert programs == expected
    assert view["file"] == str(lab / "my-arm.py") and view["argv"] == [view["file"]]
    assert view["name"] == "my-arm" and view["class"] == "my-arm.Payload"
    assert view["folder"] == str(work)
    names = ("agents.py", "networks/arm.py", "run.py", "workers.py", "environments/arena.py")
    assert view["neighbours"] == [str(lab / name) for name in names]
    assert view["path"][0] == str(lab)
    assert not {str(work), "", str(REPO / "tfagents_system")} & set(view["path"])


def test_relative_paths_hold_where_user_code_changes_the_folder(awkward, tmp_path):
    lab, work = awkward
    moved = PARAMS.replace(
        'self.relative = pathlib.Path("relative.txt").read_text()', 'os.chdir("/")'
    ).replace(
        "self._num_steps = 0\n        return",
        "os.chdir('/')\n        self._num_steps = 0\n        return",
    )
    assert moved.count("os.chdir") == 2
    (lab / "my-arm.py").write_text(moved)
    (work / "own.json").write_text('{"horizon": 10}')
    commands = [
        ["train", "v.sh", "--seed=1", *SETTINGS],
        ["eval", "logs/arm", "--params=../my lab/my-arm.py", "--config=own.json",
         "--num_episodes=1", "--novideo"],
        ["export", "logs/arm", "--to=numpy", "--output=exported"],
    ]  # fmt: skip
    views(work, tmp_path / "tape", commands, "spawn")
    assert (work / "exported").is_dir()


def test_a_server_of_processes_is_like_any_other_program(awkward, tmp_path):
    (awkward[1] / "random.py").unlink()  # Python's own server of processes would import it
    check = ["check", "v.sh", *SETTINGS, "--num_episodes=1", "--nopredict"]
    ((_, programs),) = views(awkward[1], tmp_path / "tape", [check], "forkserver")
    assert programs == {"tfagents_system check", "a child"}


def test_the_published_commands_hide_no_module_of_the_users(tmp_path):
    """`python tfagents_system/run.py` puts that folder first on the path of modules."""
    done = subprocess.run(
        [sys.executable, "-c", "import runpy, sys; sys.argv = ['run.py']; "
         f"sys.path.insert(0, {str(REPO / 'tfagents_system')!r}); import tfagents_system; "
         "print(sys.path)"],
        env=os.environ | {"PYTHONPATH": str(REPO)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and str(REPO / "tfagents_system'") not in done.stdout
    for program in ("run.py", "sac_collect.py", "sac_train.py", "sac_replay_buffer.py"):
        done = subprocess.run(
            [sys.executable, REPO / "tfagents_system" / program, "--help"], cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPO)}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0 and f"usage: {program}" in done.stdout, done.stderr


def test_a_package_of_our_name_in_the_current_folder_is_not_taken_for_ours(tmp_path, monkeypatch):
    (tmp_path / "tfagents_system").mkdir()
    (tmp_path / "tfagents_system/__init__.py").write_text("raise ImportError('not ours')\n")
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "tfagents_system.launch.show.status", "--help"]
    told = launch_arguments({"PATH": os.environ["PATH"]})
    done = subprocess.run(command, **told, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "usage: " in done.stdout, done.stderr
    assert told["env"]["SERVICE_WORKING_DIR"] == str(tmp_path)


REGISTERED = """
import pathlib
import gymnasium

class Reach(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self):
        self.gain = float(pathlib.Path("gain.txt").read_text())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype("float32"), {}

    def step(self, action):
        return self.reset()[0], self.gain * float(action[0]), False, False, {}

gymnasium.register("SlowReach-v0", Reach, max_episode_steps=10)
"""


def test_a_module_and_a_relative_file_of_the_current_folder_are_found_by_every_command(tmp_path):
    (tmp_path / "my_envs.py").write_text(REGISTERED)
    (tmp_path / "gain.txt").write_text("0.5")
    name = ["--env", "my_envs:SlowReach-v0"]
    commands = [
        ["check", *name, "--num_episodes=1", "--nopredict"],
        ["train", *name, *SETTINGS],
        ["eval", "logs/slow_reach", "--num_episodes=1", "--novideo"],
        ["export", "logs/slow_reach", "--to=numpy"],
    ]
    for arguments in commands:
        code, out, err = sac(tmp_path, *arguments, timeout=250, SAC_NUM_COLLECT_WORKERS="1")
        assert code == 0, (arguments, out, err)
