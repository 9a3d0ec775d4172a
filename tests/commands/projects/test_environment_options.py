"""Options of `sac train --env` and `sac new`: what is written, and what is refused before."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tfagents_system.commands.check import check
from tfagents_system.commands.new import new
from tfagents_system.commands.projects.environment_options import EnvironmentOptions, WrapperCall
from tfagents_system.commands.projects.training_project import project_of
from tfagents_system.commands.train import train
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.environments.construction import make_eval_environment
from tfagents_system.launch.checks.params_check import check_params_file
from tfagents_system.launch.local.variables import read_variables

REPO = pathlib.Path(__file__).parents[3]
WRAPPERS = """
import gym
import gymnasium
from tf_agents.environments import wrappers


class Scaled(gymnasium.RewardWrapper):
    def __init__(self, env, factor, name="none"):
        super().__init__(env)
        self.factor, self.name = factor, name

    def reward(self, reward):
        return self.factor * reward


class ScaledInGym(gym.RewardWrapper):
    def reward(self, reward):
        return 3 * reward


class Same(wrappers.PyEnvironmentBaseWrapper):
    pass


class Nothing:
    pass
"""
STACK = "gymnasium.wrappers.FrameStackObservation"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with wrappers, in which commands are given."""
    pytest.importorskip("gymnasium", reason="locks/test.lock is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_wrappers", raising=False)
    (tmp_path / "own_wrappers.py").write_text(WRAPPERS)
    yield tmp_path
    sys.modules.pop("own_wrappers", None)
    while str(tmp_path) in sys.path:  # load_params adds it
        sys.path.remove(str(tmp_path))


def project(env, name="p", **flags):
    return project_of(env, name, EnvironmentOptions.parse(**flags))


def environment_of(name="p"):
    """Returns the environment, made as a program does, and its params."""
    params_file = pathlib.Path(f"{name}_params.py")
    assert check_params_file(params_file, (pathlib.Path(),)) == []
    config = load_env_config(pathlib.Path(f"{name}_config.json"))
    params = load_params(params_file, config, [])
    return make_eval_environment(params, seed=1), params


def test_values_are_python_literals_else_strings(folder):
    parsed = EnvironmentOptions.parse(
        ["a=1", "b=1e-3", "c=rgb_array", "d=(1, 'x')", "e=None", "f=", "g=x=y"],
        [f"{STACK}:4", "own_wrappers:Scaled:0.5, name=fast", "own_wrappers.Scaled:0.5",
         "gymnasium.wrappers:ClipAction", "gymnasium.wrappers.ClipAction:word"],
    )  # fmt: skip
    assert parsed.kwargs == {
        "a": 1, "b": 1e-3, "c": "rgb_array", "d": (1, "x"), "e": None, "f": "", "g": "x=y",
    }  # fmt: skip
    assert parsed.wrappers == (
        WrapperCall("gymnasium.wrappers", "FrameStackObservation", (4,)),
        WrapperCall("own_wrappers", "Scaled", (0.5,), {"name": "fast"}),
        WrapperCall("own_wrappers", "Scaled", (0.5,)),
        WrapperCall("gymnasium.wrappers", "ClipAction"),
        WrapperCall("gymnasium.wrappers", "ClipAction", ("word",)),
    )
    assert str(parsed.wrappers[1]) == "own_wrappers.Scaled:0.5, name='fast'"


def test_infinity_is_written_as_python_reads_it(folder):
    flags = {
        "env_kwargs": ["g=1e999", "render_mode=rgb_array"],
        "wrap": ["own_wrappers:Scaled:-1e999,name=(1e999,[2.5,{'a':-1e999}])"],
    }
    project("Pendulum-v1", **flags)
    environment, _ = environment_of()
    assert environment.gym.unwrapped.g == float("inf")
    assert environment.gym.factor == -float("inf")
    assert environment.gym.name == (float("inf"), [2.5, {"a": -float("inf")}])
    given = EnvironmentOptions.parse(**flags)
    texts = given.flags()
    assert texts["--env_kwargs"] == "g=1e309 render_mode='rgb_array'"
    read = EnvironmentOptions.parse(texts["--env_kwargs"].split(), [texts["--wrap"]])
    assert read == given  # so that a resume with what is shown goes on


def test_all_options_are_in_the_files(folder):
    variables = project(
        "Pendulum-v1", env_kwargs=["g=5.0", "render_mode=rgb_array"], horizon=50, workers=4,
        wrap=["own_wrappers:Scaled:0.5", f"{STACK}:4"],
    )  # fmt: skip
    assert json.loads(pathlib.Path("p_config.json").read_text()) == {"horizon": 50}
    environ = read_variables(variables, {"PATH": "/bin:/usr/bin"})
    assert environ["SAC_NUM_COLLECT_WORKERS"] == "4"
    environment, params = environment_of()
    assert params.n_train_episodes_per_iter * 50 == params.num_steps_per_iter == 1000
    assert environment.observation_spec().shape == (4, 3)
    inner = environment.gym.unwrapped
    assert (inner.g, inner.render_mode) == (5.0, "rgb_array")
    observation = environment.reset().observation
    angle = np.arctan2(observation[-1, 1], observation[-1, 0])
    speed = observation[-1, 2]
    reward = environment.step(np.zeros(1, np.float32)).reward
    assert reward == pytest.approx(0.5 * -(angle**2 + 0.1 * speed**2), rel=1e-5)
    environment.close()


def test_a_longer_horizon_moves_the_registered_limit(folder):
    project("Pendulum-v1", horizon=300)
    environment, _ = environment_of()
    environment.reset()
    for _ in range(299):
        assert not environment.step(np.zeros(1, np.float32)).is_last()
    assert environment.step(np.zeros(1, np.float32)).discount == 1
    environment.close()


@pytest.mark.parametrize(
    ("env", "flags", "attribute", "expected"),
    [
        ("gym:Pendulum-v1", {"env_kwargs": ["g=5.0"], "wrap": ["own_wrappers:ScaledInGym"]},
         "g", 5.0),
        ("HalfCheetahBulletEnv-v0", {"env_kwargs": ["render=False"],
         "wrap": ["own_wrappers:ScaledInGym"]}, "isRender", False),
    ],
)  # fmt: skip
def test_wrappers_of_gym(folder, env, flags, attribute, expected):
    project(env, **flags)
    environment, _ = environment_of()
    assert getattr(environment.gym.unwrapped, attribute) == expected
    assert type(environment.gym).__name__ == "ScaledInGym"
    environment.close()


def test_arguments_and_wrappers_of_dm_control(folder):
    pytest.importorskip("dm_control", reason="locks/test.lock is not installed")
    project("dm_control:cartpole/swingup", env_kwargs=["time_limit=0.5"], horizon=50,
            wrap=["own_wrappers:Same"])  # fmt: skip
    environment, _ = environment_of()
    assert environment.horizon == 50  # 0.5 s / 0.01 s
    environment.close()
    with pytest.raises(ConfigError, match="--horizon is 51, but .* ends after 50 env steps"):
        project("dm_control:cartpole/swingup", "q", env_kwargs=["time_limit=0.5"], horizon=51)


def test_new_and_the_simulator_of_ones_own(folder, capsys):
    new("q", from_="gymnasium:Pendulum-v1", env_kwargs=("g=2.0",), wrap=(f"{STACK}:2",), horizon=40)
    environment, _ = environment_of("q")
    assert environment.gym.unwrapped.g == 2.0
    assert environment.observation_spec().shape == (2, 3)
    environment.close()
    new("r", horizon=40, workers=2)
    assert json.loads(pathlib.Path("r_config.json").read_text())["horizon"] == 40
    with pytest.raises(ConfigError, match="--env_kwargs and --wrap need --from"):
        new("s", wrap=(f"{STACK}:2",))


def test_the_same_options_go_on_and_others_are_refused(folder):
    flags = {"env_kwargs": ["g=5.0", "render_mode=rgb_array"], "wrap": [f"{STACK}:4"],
             "horizon": 50, "workers": 2}  # fmt: skip
    variables = project("Pendulum-v1", **flags)
    files = {path: path.read_text() for path in pathlib.Path().glob("p_*")}
    assert project("Pendulum-v1", **flags) == variables
    same = flags | {"env_kwargs": ["render_mode='rgb_array'", "g=5."],
                    "wrap": ["gymnasium.wrappers:FrameStackObservation:4"]}  # fmt: skip
    assert project("Pendulum-v1", **same) == variables
    assert project("Pendulum-v1") == variables  # what is left out stays
    for flag, value, message in (
        ("env_kwargs", ["g=6.0"], r"with --env_kwargs g=5.0 render_mode='rgb_array', and now it "
                                  r"is --env_kwargs g=6.0\. Choose another --name"),
        ("wrap", [f"{STACK}:3"], r"--wrap gymnasium.wrappers.FrameStackObservation:3"),
        ("horizon", 60, "p_variables.sh was written with --horizon 50, and now it is --horizon 60"),
        ("workers", 3, "with --workers 2, and now it is --workers 3"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            project("Pendulum-v1", **{flag: value})
    project("Pendulum-v1", "bare")
    with pytest.raises(ConfigError, match="was written with no --horizon, and now it is --horiz"):
        project("Pendulum-v1", "bare", horizon=60)
    assert {path: path.read_text() for path in pathlib.Path().glob("p_*")} == files


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"env_kwargs": ["gg=5"]},
         r"--env_kwargs: gymnasium:Pendulum-v1 has no argument 'gg'\. (Did you|Allowed: g, re)"),
        ({"env_kwargs": ["max_episode_steps=5"]}, "The time limit is --horizon"),
        ({"env_kwargs": ["g"]}, "--env_kwargs is 'g'; expected NAME=VALUE"),
        ({"env_kwargs": ["render_mode=5", "g=1"]},
         "|".join(["cannot be made: .* with --env_kwargs g=1 render_mode=5"])),
        ({"wrap": ["no_such_module:Wrapper"]}, "--wrap .*no_such_module cannot be imported"),
        ({"wrap": ["gymnasium.wrappers.FrameStack:4"]},
         "gymnasium.wrappers has no FrameStack. Did you mean FrameStackObservation?"),
        ({"wrap": ["own_wrappers:Nothing"]},
         r"own_wrappers.Nothing is not a gymnasium.Wrapper, which wraps"),
        ({"wrap": ["own_wrappers:ScaledInGym"]}, "own_wrappers.ScaledInGym is not a gymnasium.Wr"),
        ({"wrap": ["own_wrappers:Scaled"]},
         r"TypeError: .*'factor'; expected Scaled\(env, factor, name='none'\)"),
        ({"wrap": ["own_wrappers:Scaled:1)("]}, r"--wrap is 'own_wrappers:Scaled:1\)\('; expected"),
        ({"wrap": ["own_wrappers:Scaled:print()"]}, "--wrap is .* that are Python literals"),
        ({"wrap": ["own_wrappers:Scaled:**word"]}, "--wrap is .* that are Python literals"),
        ({"wrap": ["Scaled"]}, "--wrap is 'Scaled'; expected module:Class"),
        ({"workers": 4097}, "SAC_NUM_COLLECT_WORKERS"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_before_anything_is_written(folder, flags, message):
    with pytest.raises(ConfigError, match=message):
        project("Pendulum-v1", **flags)
    assert [path.name for path in folder.glob("*.*") if path.name != "own_wrappers.py"] == []


def test_more_workers_than_cpus_allow_are_refused(folder, monkeypatch):
    monkeypatch.setenv("SAC_COLLECT_WORKER_CPUS", "1")
    with pytest.raises(ConfigError, match=r"4000 x worker 1 = 4002 CPUs, but this job has"):
        project("Pendulum-v1", workers=4000)
    assert list(folder.glob("p_*")) == []


@pytest.mark.parametrize("flag", ["--horizon", "--workers"])
def test_numbers_are_at_least_one(flag):
    with pytest.raises(ConfigError, match=f"{flag} is '0'; expected an integer >= 1"):
        with_arguments(train, ["sac train", "--env", "Pendulum-v1", flag, "0"])


def test_options_without_env_are_refused(folder):
    with pytest.raises(ConfigError, match="need --env; otherwise, the files"):
        check(folder / "v.sh", horizon=3)


@pytest.mark.system
def test_a_run_with_all_options(folder):
    """From an empty folder through all programs; then the same options continue it."""
    command = [sys.executable, "-m", "tfagents_system", "train", "--env", "Pendulum-v1",
               "--env_kwargs", "g=5.0", "--horizon", "20", "--wrap", f"{STACK}:2", "--workers", "2",
               "--set", "num_iter=2", "num_steps_per_iter=5", "n_train_episodes_per_iter=2",
               "n_buffer_init_episodes=8", "eval_period_itrs=1", "n_eval_episodes=1",
               "action_repeat=2"]  # fmt: skip
    for extend in ((), ("--extend", "1")):
        done = subprocess.run([*command, *extend], capture_output=True, text=True, timeout=280,
                              env=os.environ | {"PYTHONPATH": str(REPO)})  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((folder / "logs/pendulum").rglob("worker_1*"))) > 0
