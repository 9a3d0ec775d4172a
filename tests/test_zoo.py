"""The tasks of the zoo can be trained, and its table says what their experiments have reached."""

import json
import pathlib

import numpy as np
import pytest
from run_files import write_run
from undisplayed import run_undisplayed

from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.variables import Settings
from tfagents_system.environments import pybullet_adapter
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.launch.local.variables import read_variables
from zoo import table
from zoo.humanoid_bullet_params import WithChange

PROJECT = pathlib.Path(__file__).parents[1]
UPDATE_RATIOS = {  # train steps per env step of params files and tasks, where it is not one
    "pybullet_params": 1 / 4, "xqc_params": 2, "humanoid_bullet_params": 2,
    "dm_control_params": 1 / 2, "box2d_params": 1 / 2, "ant_bullet": 1 / 2,
    "half_cheetah_bullet": 1 / 2, "half_cheetah_bullet_td3": 1 / 2,
    "hopper_bullet_td3": 1 / 2, "demonstrations_params": 2,
    "water_maze_simple": 1 / 4, "water_maze_simple_mdp": 1 / 4,
    "water_maze_simple_without_memory": 1 / 4,
}  # fmt: skip


PIXELS = [task for task in table.tasks() if task.endswith("_pixels")]


def environment_of(task):
    """Loads the task's files from the current folder; returns its environment and horizon."""
    variables = table.tasks()[task].trained_by
    settings = Settings.from_environ(read_variables(pathlib.Path(variables), {}))
    assert settings.exp_name == task
    config = load_env_config(settings.config)
    params = load_params(settings.params, config, settings.gin_bindings)
    of_params = UPDATE_RATIOS.get(pathlib.Path(settings.params).stem, 1)
    update_ratio = UPDATE_RATIOS.get(task, of_params)
    env_steps_per_iter = params.n_train_episodes_per_iter * config["horizon"]
    assert params.num_steps_per_iter == update_ratio * env_steps_per_iter
    return make_collect_environment(params, 1, 0), config["horizon"]


@pytest.mark.parametrize("task", [task for task in table.tasks() if task not in PIXELS])
def test_each_task_names_an_environment_that_can_be_stepped(task, monkeypatch):
    monkeypatch.chdir(PROJECT)
    environment, _ = environment_of(task)
    environment.reset()
    action = np.zeros(environment.action_spec().shape, environment.action_spec().dtype)
    assert np.isfinite(environment.step(action).reward)
    environment.close()


def test_the_humanoid_sees_the_change_since_the_last_simulator_step():
    environment = WithChange(pybullet_adapter.load("HumanoidBulletEnv-v0", seed=0))
    for _ in range(2):  # the second episode begins without a change, too
        first = environment.reset().observation
        size = len(first) // 2
        np.testing.assert_array_equal(first[size:], 0.0)
        second = environment.step(np.full(17, 0.5, np.float32)).observation
        np.testing.assert_array_equal(second[size:], second[:size] - first[:size])
        assert second[size:].any()
    environment.close()


STEPPED = """
import sys
sys.path.insert(0, "tests")
import numpy as np
import test_zoo

environment, horizon = test_zoo.environment_of({task!r})
environment.reset()
action = np.zeros(environment.action_spec().shape, environment.action_spec().dtype)
steps = [environment.step(action) for _ in range(horizon)]
print([step.is_last() for step in steps].index(True) + 1 == horizon, steps[0].observation.shape)
"""


@pytest.mark.system
@pytest.mark.parametrize("task", PIXELS)
def test_each_task_seen_through_a_camera_lasts_for_its_horizon(task):
    done = run_undisplayed(STEPPED.format(task=task), cwd=PROJECT)
    assert done.stdout.endswith("True (84, 84, 3)\n"), done.stderr


def test_results_are_the_last_evaluations_of_finished_experiments(tmp_path):
    for name, returns in (("ant_bullet_seed_1", [10, 20]), ("ant_bullet_seed_2", [30, 50]),
                          ("ant_bullet_trial", [99]),
                          ("ant_bullet_seed_2_until_20260105", [98]),
                          ("hopper_bullet_seed_1", [7])):  # fmt: skip
        origin = {"seed": int(name[-1]) if name[-1].isdigit() else 0, "cpu_model": "a CPU"}
        paths = write_run(tmp_path / name, returns, provenance=origin)
        if not name.startswith("hopper"):
            paths.finished.write_text(json.dumps({"num_iter": 1}))
    results = table.results_in(tmp_path)
    found = {(r.task, r.seed): (r.env_steps, r.mean_return, r.cpu) for r in results}
    assert found == {
        ("ant_bullet", 1): (40, (10 + 20) / 2, "a CPU"),
        ("ant_bullet", 2): (40, (30 + 50) / 2, "a CPU"),
    }


def test_a_new_result_replaces_the_old_one_of_its_seed_and_others_stay(tmp_path):
    old = [table.Result("hopper", seed, 1000, 1.0, 2.0, "b, c", "abc") for seed in (1, 2)]
    table.write_rows(tmp_path / "results.csv", table.Result._fields, old)
    assert table.read_results(tmp_path / "results.csv") == old
    new = old[1]._replace(mean_return=9.0)
    assert table.merged(old, [new]) == [old[0], new]
    assert table.merged([], [new, old[0]]) == [old[0], new]


def test_results_and_table_have_the_success_rate_if_there_is_one(tmp_path):
    origin = {"cpu_model": "a CPU"}
    for seed, successes in ((1, [1, 0]), (2, [1, 1])):
        folder = tmp_path / f"car_flag_seed_{seed}"
        run = write_run(folder, [3, 4], provenance=origin | {"seed": seed}, successes=successes)
        run.finished.write_text("{}")
    results = table.results_in(tmp_path)
    table.write_rows(tmp_path / "results.csv", table.Result._fields, results)
    assert table.read_results(tmp_path / "results.csv") == table.merged(results, [])
    row = next(line for line in table.table(results).splitlines() if "car_flag.sh" in line)
    assert f", success {(1 / 2 + 2 / 2) / 2:.0%} |" in row
    without = [result._replace(success_rate=None) for result in results]
    assert "success" not in table.table(without)


def test_the_table_has_mean_and_interval_of_each_task():
    results = [table.Result("hopper_bullet", seed, 10**6, mean_return, 30.0 + seed, "c", "abc")
               for seed, mean_return in ((1, 2000.0), (2, 2200.0), (3, 2700.0))]  # fmt: skip
    row = next(line for line in table.table(results).splitlines() if "hopper_bullet.sh" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:3] == ["1,000,000", "3"]
    mean, interval = cells[3].split(" ", 1)
    assert mean == f"{(2000 + 2200 + 2700) / 3:,.0f}"
    low, high = (float(text.replace(",", "")) for text in interval.strip("[]").split(", "))
    assert 2000 <= low < (2000 + 2200 + 2700) / 3 < high <= 2700
    assert cells[4:] == ["SB3 2,422 ± 168", f"{30 + (1 + 2 + 3) / 3:.1f}"]
    assert table.table([]).count("not run yet") == len(table.rows())


def test_published_returns_are_those_of_at_most_as_many_env_steps():
    steps_and_texts = {99_999: "", 199_999: "SAC 1,103, CrossQ 2,754, XQC 2,828",
                       200_000: "SAC 2,274, CrossQ 2,627, XQC 3,527"}  # fmt: skip
    for env_steps, text in steps_and_texts.items():
        (row,) = [
            line
            for line in table.table(
                [table.Result("hopper", 1, env_steps, 0.0, 1.0, "c", "d")]
            ).splitlines()
            if "zoo/hopper.sh" in line
        ]
        assert row.split(" | ")[4].strip() == text


def test_published_returns_are_by_simulator_steps_where_actions_are_repeated():
    assert table.tasks()["cheetah_run"].action_repeat == 2
    texts = {49_999: "", 50_000: "XQC 722", 99_999: "XQC 722", 100_000: "XQC 816"}
    for env_steps, text in texts.items():
        result = table.Result("cheetah_run", 1, env_steps, 0.0, 1.0, "c", "d")
        (row,) = [line for line in table.table([result]).splitlines() if "cheetah_run.sh" in line]
        assert row.split(" | ")[4].strip().endswith(text) and ("XQC" in row) == bool(text)


def test_the_page_has_the_table_of_the_results():
    made = table.table(table.read_results(PROJECT / "zoo/results.csv"))
    assert f"{table.MARKS[0]}{made}{table.MARKS[1]}" in table.PAGE.read_text()


def test_the_table_has_what_is_trained_without_a_variables_file(tmp_path):
    run = write_run(tmp_path / "cart_pole_defaults_seed_3", [400, 500],
                    provenance={"seed": 3, "cpu_model": "a CPU"})  # fmt: skip
    run.finished.write_text("{}")
    (result,) = table.results_in(tmp_path)
    assert (result.task, result.seed, result.mean_return) == (
        "cart_pole_defaults", 3, (400 + 500) / 2
    )  # fmt: skip
    row = next(
        line for line in table.table([result]).splitlines() if "--env" in line and "450" in line
    )
    assert row.startswith("| CartPole-v1, `sac train --env CartPole-v1` | ")
