"""`sac check` with environments that have one fault each."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types
from unittest import mock

import gin
import numpy as np
import pytest
from tf_agents.specs import array_spec

from tfagents_system.collection import rollouts
from tfagents_system.commands.check import check
from tfagents_system.commands.checks import environment, learning
from tfagents_system.commands.checks.probes import check_rewards, shown_specs
from tfagents_system.commands.checks.rows import Row
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.demonstrations.recorder import Recorder
from tfagents_system.environments import own_arrays
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.learning import held_demonstrations

PARAMS = """
import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.train_params_base import TrainParamsBase

KEPT = []


class Line(py_environment.PyEnvironment):
    "A point on a line; an episode has 20 steps, or terminates beyond 1."

    def __init__(self, fault, seed):
        super().__init__()
        self._fault = fault
        self._buffer = np.zeros(1, np.float32)
        self._rng = np.random.default_rng(None if fault == "unseeded" else seed)
        if fault == "same":
            self._rng = np.random.default_rng(0)
        if fault == "learns":
            self.obs_rms = {"mean": 0.0}
        if fault == "constructor":
            raise RuntimeError("no licence")

    def observation_spec(self):
        high = 0.5 if self._fault == "bounds" else 100.0
        return array_spec.BoundedArraySpec([1], np.float32, -high, high, "observation")

    def action_spec(self):
        return array_spec.BoundedArraySpec([1], np.float32, -1.0, 1.0, "action")

    def _observe(self):
        if self._fault == "buffer":
            self._buffer[:] = self._place
            return self._buffer
        if self._fault == "shape" and self._count == 7:
            return np.zeros(2, np.float32)
        if self._fault == "nan" and self._count == 7:
            return np.array([np.nan], np.float32)
        return np.array([self._place], np.float32)

    def _reset(self):
        self._count, self._place = 0, self._rng.uniform(-1, 1)
        if self._fault == "leak":
            KEPT.append(np.ones(500_000))  # 4 MB
        return ts.restart(self._observe())

    def _step(self, action):
        if self._current_time_step.is_last():
            return self.reset()
        self._count += 1
        self._place += 0.1 * float(action[0])
        if self._fault == "scribbles":
            action *= 5
        if self._fault == "one step":
            return ts.termination(self._observe(), -abs(self._place))
        if self._fault == "endless":
            return ts.transition(self._observe(), np.float32(-abs(self._place)))
        if self._fault == "falls" and self._count >= 3 + int(2 * abs(self._place)):
            return ts.termination(self._observe(), 0.0)
        if self._count >= 20:
            if self._fault == "limit":
                return ts.termination(self._observe(), 0.0)
            return ts.truncation(self._observe(), 0.0)
        reward = 0.0 if self._fault == "silent" else -abs(self._place)
        return ts.transition(self._observe(), np.float32(reward))

    def get_info(self):
        infos = {"success": {"success": np.zeros(3)}, "info": {"distance": abs(self._place)},
                 "taken": {"action": [0.5]}, "no action": {"action": [7.0]},
                 "no flag": {"intervention": "perhaps"}, "array": np.zeros(2)}
        return infos.get(self._fault, {"success": False})

    def set_state(self, state):
        if self._fault == "set_state" and state["slope"] > 0.4:
            raise ValueError("too steep")

    def render(self, mode="rgb_array"):
        picture = np.linspace(0, 1, 4 * 6 * 3).reshape(4, 6, 3)
        if self._fault == "size":
            return picture[: 4 - self._count % 2]
        pictures = {"render": None, "black": picture > 2, "range": 2 * picture - 1}
        return pictures.get(self._fault, picture)


class TrainParams(TrainParamsBase):
    matmul_precision = "float32"
    actor_fc_layer_params = critic_joint_fc_layer_params = (4,)

    def __init__(self, env_config):
        super().__init__(env_config)
        self.demonstrations = env_config.get("demonstrations")

    def env_ctor(self, *args, seed=None, **kwargs):
        return Line(self.env_config.get("fault"), seed)
"""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("SAC_EXP_NAME", "SAC_PARAMS", "SAC_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def checked(folder, capsys, fault=None, learns=False, load=0.0, **config):
    """Returns the exit code and, by what was looked at, (verdict, the row's text).

    Without `learns` no train step is compiled, which takes seconds.
    """
    (folder / "params.py").write_text(PARAMS)
    config = {"horizon": 20, "fault": fault} | config
    (folder / "config.json").write_text(json.dumps(config))
    files = {"params": folder / "params.py", "config": folder / "config.json"}
    learned = Row("learning", "ok", "not tried")
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(os, "getloadavg", lambda: (load, load, load)))
        if not learns:
            stack.enter_context(mock.patch.object(learning, "check_learning", lambda *_: learned))
        code = check(**files, predict=False)
    rows = {}
    for line in capsys.readouterr().out.split("\n\n")[0].splitlines():
        if found := re.fullmatch(r"(\S.*?)  +(ok|WRONG|note) +(.*)", line):
            rows[found[1]] = [found[2], found[3]]
            last = rows[found[1]]
        else:
            last[1] += " " + line.strip()
    return code, {what: tuple(row) for what, row in rows.items()}


def test_choices_are_shown_with_the_number_of_their_integers():
    place = array_spec.BoundedArraySpec((), np.int64, 3, 5, "category_of_observation")
    number = array_spec.BoundedArraySpec((), np.int64, 3, 5, "observation")
    tools = array_spec.BoundedArraySpec((2,), np.int64, [0, 5], [1, 7], "action")
    arm = array_spec.BoundedArraySpec((1,), np.float32, -1, 1, "action")
    assert shown_specs((place, number), (arm, tools)) == (
        "observation int64 [], one of 3, int64 []; action float32 [1], int64 [2], one of 2 x 3"
    )


@pytest.mark.parametrize(
    ("reward", "num_terminations", "verdict"), [(1.0, 2, "ok"), (1.0, 0, "note"), (0.0, 2, "note")]
)
def test_one_reward_suffices_where_episodes_terminate(reward, num_terminations, verdict):
    examiner = types.SimpleNamespace(
        rewards={reward}, num_steps=120, num_terminations=num_terminations
    )
    row = check_rewards(examiner)
    assert row.verdict == verdict
    assert row.value.startswith(f"the reward was the same in all 120 steps, {reward:g}")


def test_a_machine_that_other_programs_keep_busy_is_named(tmp_path, capsys):
    _, rows = checked(tmp_path, capsys, load=4096.0)
    verdict, text = rows["machine"]
    assert verdict == "note" and text.startswith("about 4096.0 programs were running on ")


def test_environment_without_a_fault_is_right_in_every_row(tmp_path, capsys):
    code, rows = checked(tmp_path, capsys, learns=True)
    assert code == 0
    assert {verdict for verdict, _ in rows.values()} == {"ok"}
    assert list(rows) == ["construction", "specs", "random episodes", "greedy episodes", "bounds",
                          "reward", "time limit", "speed", "memory leak", "set_state", "arrays",
                          "rendering", "seeding", "learning"]  # fmt: skip
    assert rows["specs"][1] == "observation float32 [1]; action float32 [1]"
    assert rows["random episodes"][1].startswith("3 episodes, 60 env steps, mean return -")
    assert rows["time limit"][1].startswith("6 episodes of 20 steps, 0 with discount 0")
    num_steps = 2 * (8 + 1)  # two blocks of 8 transitions and the row before them
    assert rows["learning"][1] == (
        f"policies exported; a train step with {num_steps} env steps done"
    )


@pytest.mark.parametrize(
    ("size", "code", "verdict", "text"),
    [
        (1, 0, "ok", "1 episodes, 2 env steps"),
        (2, EXIT_CONFIG, "WRONG", "observation has shape [2], in the environment [1]"),
    ],
)
def test_demonstrations_are_read_and_compared(size, code, verdict, text, tmp_path, capsys):
    recorder = Recorder(tmp_path / "demos")
    recorder.reset(np.zeros(size))
    recorder.step([0.5], np.ones(size), 1.0, False, False)
    recorder.step([0.5], np.ones(size), 1.0, True, False)
    found, rows = checked(tmp_path, capsys, demonstrations="demos")  # beside the params file
    assert found == code
    assert rows["demonstrations"][0] == verdict
    assert text in rows["demonstrations"][1]


@pytest.mark.parametrize(
    ("fault", "row", "verdict", "text"),
    [
        ("constructor", "construction", "WRONG", r"RuntimeError: no licence \(.*params.py:\d+\)"),
        ("nan", "random episodes", "WRONG", "ValueError: observation is not finite"),
        ("shape", "random episodes", "WRONG", r"observation has shape \(2,\), its spec \(1,\)"),
        ("limit", "time limit", "note", "6 with discount 0 .* must have discount 1"),
        ("falls", "time limit", "ok", "6 with discount 0"),
        ("one step", "time limit", "note", "6 episodes of 1 steps, .*over after its first step"),
        ("endless", "time limit", "ok", "the horizon is 20, which ended them all"),
        ("silent", "reward", "note", "the reward was the same in all 120 steps, 0 -> Nothing can"),
        ("bounds", "bounds", "note", r"observation \(\d+ steps\)"),
        ("unseeded", "seeding", "note", "one seed gave two different episodes"),
        ("same", "seeding", "note", "two seeds gave the same episode"),
        ("learns", "learned state", "note", r"\(Line.obs_rms\).*-> Instead of the wrapper"),
        ("scribbles", "arrays", "note", "step writes into its argument, the action"),
        ("buffer", "arrays", "note", "step returns the same array as before"),
        (
            "no action",
            "interventions",
            "WRONG",
            r"info\['action'\].* is \[7.0\], beyond -1.0 to 1.0",
        ),
        ("no flag", "interventions", "WRONG", r"info\['intervention'\] is 'perhaps'; expected a"),
        ("array", "reward", "ok", ""),
        ("taken", "interventions", "ok", r"info\['action'\] is stored in place"),
        ("success", "success", "note", r"info\['success'\] is float64 of shape \(3,\)"),
        ("black", "rendering", "note", r"6 x 4, all of one color, \[0, 0, 0\] .*floats 0 to 1"),
        ("range", "rendering", "note", "Line.render returned float64 from -1 to 1; a film needs"),
        ("size", "rendering", "note", "frames of 6 x 4 and 6 x 3 .*A film has one size"),
        ("render", "rendering", "note", "a film needs an array"),
        ("leak", "memory leak", "note", r"[3-5]\.\d+ MB more per episode"),
    ],
)
def test_fault_is_found_in_its_row_and_in_no_other(tmp_path, capsys, fault, row, verdict, text):
    code, rows = checked(tmp_path, capsys, fault)
    assert rows[row][0] == verdict and re.search(text, rows[row][1]), rows
    assert code == (78 if verdict == "WRONG" else 0)
    assert all(rows[other][0] == "ok" for other in rows if other != row), rows


SHARED = """
    def env_ctor(self, collect_env=None, seed=None):
        return collect_env or {made}

    def eval_env_args_kwargs(self, id, collect_env):
        return (), {{"collect_env": collect_env}}
"""
WORLD = """
    def env_ctor(self, *args, seed=None, **kwargs):
        from parallel_fakes import ParallelWorld

        return ParallelWorld(num_agents=3)
"""
CURRICULUM = {"slope": {"iters": [0, 10], "range": [0.0, 0.5]}}
OWN_LINE = SHARED.format(made="Line(None, seed)")
REFUSED = "{} is {}, but env_ctor returns an environment with 3 environments or agents; expected"


@pytest.mark.parametrize(
    ("body", "config", "text"),
    [
        (f"    time_aware = True\n{WORLD}", {}, REFUSED.format("TrainParams.time_aware", True)),
        (f"    her_copies = 4\n{WORLD}", {}, REFUSED.format("TrainParams.her_copies", 4)),
        (OWN_LINE, {"curriculum": CURRICULUM}, "The config has a curriculum, and eval_env_args"),
        (
            f"    envs_per_worker = 4\n{OWN_LINE}",
            {},
            "TrainParams.envs_per_worker is 4, but eval_env_args_kwargs makes an environment of",
        ),
        (
            "    envs_per_worker = 4\n    made = Line(None, 1)\n"
            "    def env_ctor(self, seed=None): return self.made\n",
            {},
            "TrainParams.envs_per_worker is 4, but env_ctor has returned the same environment",
        ),
    ],
)
def test_what_every_worker_would_refuse_is_wrong(tmp_path, capsys, monkeypatch, body, config, text):
    monkeypatch.setattr(sys.modules[__name__], "PARAMS", f"{PARAMS}\n{body}")
    code, rows = checked(tmp_path, capsys, **config)
    verdict, shown = rows["worker"]
    assert (code, verdict) == (78, "WRONG")
    assert shown.startswith(text) and shown.endswith("-> Every worker would end with this.")


def test_a_deterministic_run_refuses_several_agents_and_a_large_buffer(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("SAC_DETERMINISTIC", "1")
    monkeypatch.setattr(sys.modules[__name__], "PARAMS", f"{PARAMS}\n{WORLD}")
    code, rows = checked(tmp_path, capsys)
    assert (code, rows["worker"][0]) == (78, "WRONG")
    assert rows["worker"][1].startswith("The worker has 3 environments (envs_per_worker, or those")
    monkeypatch.undo()
    monkeypatch.setenv("SAC_DETERMINISTIC", "1")
    monkeypatch.setenv("SAC_GIN_BINDINGS", "TrainParams.n_episodes_in_buffer = 10000000")
    code, rows = checked(tmp_path, capsys, learns=True)
    assert (code, rows["learning"][0]) == (78, "WRONG")
    assert rows["learning"][1].startswith("the replay buffer: ConfigError: SAC_DETERMINISTIC is 1")


def test_demonstrations_that_need_too_much_memory_are_wrong(tmp_path, capsys, monkeypatch):
    recorder = Recorder(tmp_path / "demos")
    recorder.reset(np.zeros(1))
    recorder.step([0.5], np.ones(1), 1.0, True, False)
    monkeypatch.setattr(held_demonstrations, "MAX_BYTES", 10)
    code, rows = checked(tmp_path, capsys, demonstrations="demos")
    assert (code, rows["demonstrations"][0]) == (78, "WRONG")
    assert re.match(r"ConfigError: The demonstrations need \d+ bytes", rows["demonstrations"][1])


def test_the_horizon_of_a_time_aware_task_is_no_time_limit(tmp_path, capsys, monkeypatch):
    body = f"{PARAMS}\n    time_aware = True\n"
    monkeypatch.setattr(sys.modules[__name__], "PARAMS", body)
    code, rows = checked(tmp_path, capsys)
    assert (code, rows["time limit"][0]) == (0, "ok")
    assert rows["time limit"][1].startswith("6 episodes of 20 steps, 6 with discount 0 at the end")
    code, rows = checked(tmp_path, capsys, "limit", horizon=30)  # at 20 steps, before the horizon
    assert (code, rows["time limit"][0]) == (0, "note")


STEP_SECS = 0.02


@pytest.mark.parametrize(
    ("body", "num_at_once", "per_step"),
    [
        ("", 1, 1),
        ("    envs_per_worker = 3\n", 3, 1),
        (WORLD.replace("num_agents=3", "num_agents=3, ends=0.0, limit=20"), 3, 3),
    ],
)
def test_the_speed_is_that_of_all_agents_of_a_simulator(
    tmp_path, capsys, monkeypatch, body, num_at_once, per_step
):
    monkeypatch.setattr(sys.modules[__name__], "PARAMS", f"{PARAMS}\n{body}")
    stepped = own_arrays.step

    def step(*arguments):
        time.sleep(STEP_SECS)
        return stepped(*arguments)

    monkeypatch.setattr(rollouts.own_arrays, "step", step)
    _, rows = checked(tmp_path, capsys)
    found = re.match(r"(\d+) env steps/s: simulator (\S+) ms", rows["speed"][1])
    assert per_step / STEP_SECS / 3 < float(found[1]) <= per_step / STEP_SECS
    assert 1e3 * STEP_SECS / per_step <= float(found[2]) < 3 * 1e3 * STEP_SECS / per_step
    text = f"{num_at_once} environments or agents act side by side"
    assert rows.get("worker") == (None if num_at_once == 1 else ("ok", text))


def test_a_worker_needs_the_memory_of_all_of_its_environments(tmp_path, monkeypatch):
    (tmp_path / "params.py").write_text(PARAMS)
    config = {"horizon": 20}
    params = load_params(tmp_path / "params.py", config, ["TrainParams.envs_per_worker = 12"])
    gin.clear_config()
    made = []

    def make(*arguments):
        made.append(make_collect_environment(*arguments))
        return made[-1]

    monkeypatch.setattr(environment, "make_collect_environment", make)
    monkeypatch.setattr(environment.memory, "own_mb", lambda: 100.0 + 20 * len(made))
    looked = environment.EnvironmentCheck(params, 20, Curriculum({}), 1)
    monkeypatch.setattr(looked, "_try_to_learn", lambda made: None)
    with contextlib.closing(looked):
        looked.run(lambda step: None)
    assert len(made) == 2
    assert looked.measured.worker_own_mb == 100 + 12 * 20


def test_set_state_gets_every_value_of_the_curriculum(tmp_path, capsys):
    curriculum = {"slope": {"iters": [0, 10, 20], "range": [0.0, 0.5]}}
    code, rows = checked(tmp_path, capsys, curriculum=curriculum)
    assert (code, rows["set_state"]) == (0, ("ok", "accepts slope (3 values)"))
    code, rows = checked(tmp_path, capsys, "set_state", curriculum=curriculum)
    verdict, text = rows["set_state"]
    assert (code, verdict) == (78, "WRONG")
    assert text.startswith("slope = 0.5: ValueError: too steep (params.py:")


def test_set_state_gets_every_lesson_and_some_draws_of_each_sampler(tmp_path, capsys):
    until = {"measure": "progress", "threshold": 0.5}
    drawn = {"sampler": "uniform", "low": 0.0, "high": 0.1}
    curriculum = {
        "gap": {"lessons": [{"value": 0.0, "until": until}, {"value": drawn}]},
        "slope": drawn,
    }
    code, rows = checked(tmp_path, capsys, curriculum=curriculum)
    text = "accepts gap (6 values), slope (5 values)"
    assert (code, rows["set_state"]) == (0, ("ok", text))
    curriculum["slope"] = {"sampler": "custom"}
    code, rows = checked(tmp_path, capsys, curriculum=curriculum)
    assert (code, rows["set_state"][0]) == (78, "WRONG")
    assert rows["set_state"][1].startswith("slope: ConfigError: The curriculum's parameter slope")


def test_numbers_of_the_info_are_named(tmp_path, capsys, monkeypatch):
    code, rows = checked(tmp_path, capsys, "info")
    assert (code, rows["info"]) == (0, ("ok", "has numbers, which log_info can record: distance"))
    monkeypatch.setenv("SAC_GIN_BINDINGS", "TrainParams.log_info = ['dist*:min']")
    code, rows = checked(tmp_path, capsys, "info")
    assert (code, rows["log_info"]) == (0, ("ok", "records distance_min"))
    monkeypatch.setenv("SAC_GIN_BINDINGS", "TrainParams.log_info = ['distanec']")
    code, rows = checked(tmp_path, capsys, "info")
    assert (code, rows["log_info"][0]) == (0, "note")
    assert rows["log_info"][1].endswith("its numbers are distance. Did you mean distance?")


@pytest.mark.parametrize(
    ("hook", "verdict", "text"),
    [
        ("return [Told()]", "ok", "Told.on_end"),
        (
            "return [7]",
            "WRONG",
            "ConfigError: TrainParams.callbacks returned a int, which has none",
        ),
        ("raise KeyError(1)", "WRONG", "KeyError: 1 (params.py:"),
    ],
)
def test_callbacks_are_named(tmp_path, capsys, monkeypatch, hook, verdict, text):
    told = "class Told:\n    def on_end(self, event):\n        pass\n"
    params = f"{PARAMS}\n    def callbacks(self):\n        {hook}\n\n\n{told}"
    monkeypatch.setattr(sys.modules[__name__], "PARAMS", params)
    _, rows = checked(tmp_path, capsys)
    assert rows["callbacks"][0] == verdict and rows["callbacks"][1].startswith(text)


def test_settings_without_effect_are_noted(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SAC_GIN_BINDINGS", "TrainParams.tqc_quantiles = 50")
    code, rows = checked(tmp_path, capsys)
    text = f"{tmp_path}/params.py: tqc_quantiles is 50, which has no effect: algorithm is 'sac'."
    assert (code, rows["settings"]) == (0, ("note", text))


def test_horizon_beyond_the_environments_own_limit_is_noted(tmp_path, capsys):
    code, rows = checked(tmp_path, capsys, horizon=1000)
    verdict, text = rows["time limit"]
    assert (code, verdict) == (0, "note")
    assert text.endswith("-> Set horizon to 20: the replay buffer and iterations are counted in "
                         "episodes of horizon steps.")  # fmt: skip


def test_horizon_before_the_environments_own_limit_is_right(tmp_path, capsys):
    code, rows = checked(tmp_path, capsys, "limit", horizon=10)
    assert (code, rows["time limit"][0]) == (0, "ok")
    assert rows["time limit"][1].startswith("6 episodes of 10 steps, 0 with discount 0")


def test_without_files_it_says_what_to_give():
    with pytest.raises(ConfigError, match="Give --env or a variables file"):
        check()


def test_an_import_of_what_there_is_not_is_one_sentence(tmp_path):
    (tmp_path / "params.py").write_text(f"import numpy.linalgg\n{PARAMS}")
    (tmp_path / "config.json").write_text('{"horizon": 20}')
    files = [f"--params={tmp_path}/params.py", f"--config={tmp_path}/config.json"]
    command = [sys.executable, "-m", "tfagents_system", "check", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (78, "")
    message = f"{tmp_path}/params.py:1: No module named 'numpy.linalgg'. Did you mean linalg?\n"
    assert done.stderr.endswith(f"sac check: {message}") and "Traceback" not in done.stderr


def test_environment_is_checked_without_files_of_the_users(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert check(env="Pendulum-v1", set_=("tqc_quantiles=50",), predict=False) == 0
    table = capsys.readouterr().out
    assert "observation float32 [3]; action float32 [1]" in table
    assert "6 episodes of 200 steps, 0 with discount 0" in table
    assert "tqc_quantiles is 50, which has no effect" in table
    assert list(tmp_path.iterdir()) == [folder] and not list(folder.iterdir())


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"env": "Pendulum-v"}, "Did you mean Pendulum-v1"),
        ({"env": "Pendulum-v1", "params": pathlib.Path("params.py")}, "either --env or files"),
        ({"env": "Pendulum-v1", "set_": ("discount=2",)}, "--set: .*discount is 2; expected"),
    ],
)
def test_wrong_environment_or_setting_is_refused_before_anything_runs(given, error):
    with pytest.raises(ConfigError, match=error):
        check(**given)


@pytest.mark.parametrize("arguments", [{"algo": "xqc"}, {"set_": ("algorithm=xqc",)}])
def test_an_environment_is_checked_with_the_settings_of_the_algorithm(monkeypatch, arguments):
    seen = []

    def look(environ, num_episodes, predict):
        seen.append(pathlib.Path(environ["SAC_PARAMS"]).read_text())
        assert environ["SAC_GIN_BINDINGS"] == "TrainParams.algorithm = 'xqc'"
        return 0

    monkeypatch.setattr("tfagents_system.commands.check._check", look)
    assert check(env="gym:Pendulum-v1", **arguments) == 0
    assert 'algorithm = "xqc"' in seen[0] and "discount = 0.975" in seen[0]  # 1 - 5 / 200
