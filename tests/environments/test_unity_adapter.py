import pathlib
import subprocess
import sys

import numpy as np
import psutil
import pytest
from replay_fakes import free_port
from tf_agents.environments import utils

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.observation_kinds import is_entities, is_goal
from tfagents_system.environments import unity_adapter

STAND_IN = str(pathlib.Path(__file__).parent / "unity" / "stand_in.py")


def children():
    """Returns the processes of this one; those that other tests left may end at any time."""
    return set(psutil.Process().children())


@pytest.fixture
def load():
    made = []

    def load_one(*arguments, **kwargs):
        made.append(unity_adapter.load(STAND_IN, seed=3, arguments=arguments, **kwargs))
        return made[-1]

    yield load_one
    for environment in made:
        environment.close()


@pytest.mark.parametrize("task", ["ball", "grid", "hybrid", "yard"])
def test_is_a_valid_environment(load, task):
    environment = load("--task", task, "--agents", "3")
    # Draws random actions, for which those of grid must be allowed.
    if task == "grid":
        time_step = environment.reset()
        for _ in range(250):
            action = environment.behavior.idle_action(time_step.observation)
            time_step = environment.step(action)
    else:
        utils.validate_py_environment(environment, episodes=2)


def test_lists_of_any_length_and_goal_signals_are_told_by_the_build(load):
    yard, grid = load("--task", "yard"), load("--task", "grid")
    spec = yard.observation_spec()
    assert {name: is_entities(leaf) for name, leaf in spec.items()} == {
        "vector": False, "blocks": True
    }  # fmt: skip
    assert spec["blocks"].shape == (4, 3)
    counts = {len(np.flatnonzero(yard.reset().observation["blocks"][:, 0])) for _ in range(30)}
    assert counts == {0, 1, 2, 3, 4}
    assert {name: is_goal(leaf) for name, leaf in grid.observation_spec().items()} == {
        "camera": False, "goal": True, "action_mask": False
    }  # fmt: skip


def test_follows_one_agent_while_the_others_stand_still(load):
    environment = load("--agents", "2")
    first = environment.reset()
    steps = [first]
    while not steps[-1].is_last():
        steps.append(environment.step(np.ones(2, np.float32)))
    assert [int(step.step_type) for step in steps] == [0] + [1] * (len(steps) - 2) + [2]
    # Its plate tilts by 5 * 0.007 a decision up to 0.25.
    tilts = np.array([step.observation["vector"][0] for step in steps])
    expected = np.minimum(tilts[0] + 5 * 0.007 * np.arange(len(tilts)), 0.25)
    np.testing.assert_allclose(tilts, expected, atol=1e-6)
    assert environment.step(np.ones(2, np.float32)).is_first()


def test_parameters_are_set_before_the_first_episode_and_by_a_curriculum(load):
    environment = load(parameters={"gravity": 1.0})
    assert environment.get_info() == {"statistics": {"Gravity": 1.0}}
    environment.reset()
    assert environment.get_info() == {"statistics": {"Gravity": 1.0}}
    environment.set_state({"gravity": 2.0})
    environment.reset()
    assert environment.slot_info(1) == {"statistics": {"Gravity": 2.0}}


def test_wrong_parameters_are_refused_and_no_build_is_left(load):
    before = children()
    with pytest.raises(ConfigError, match="'gravity', .* is 'low'; expected a number"):
        load(parameters={"gravity": "low"})
    environment = load()
    with pytest.raises(ConfigError, match="'größe', .* names of ASCII characters"):
        environment.set_state({"größe": 1.0})
    environment.close()
    later = load(specs=environment.behavior.to_json())
    later.set_state({"gravity": "low"})
    with pytest.raises(ConfigError, match="'gravity', .* is 'low'; expected a number"):
        later.reset()
    assert children() <= before


def test_agents_that_ask_in_turns_have_a_slot_each(load):
    environment = load("--agents", "3", "--turns", "3")
    assert environment.num_slots == 3
    kinds = {
        slot: [int(step.step_type)] for slot, step in environment.reset_slots([0, 1, 2]).items()
    }
    assert kinds == {0: [0]}
    newest = {0}
    for _ in range(8):
        answers = environment.step_slots({slot: np.zeros(2, np.float32) for slot in newest})
        for slot, step in answers.items():
            kinds.setdefault(slot, []).append(int(step.step_type))
        newest = answers.keys()
    assert kinds == {slot: [0, 1, 1] for slot in (0, 1, 2)}  # 9 steps in turn


def test_the_editor_serves_one_of_several_environments_with_specs(load):
    specs = load().behavior.to_json()
    port = free_port()
    collect, evaluation = (unity_adapter.load(None, specs=specs, port=port) for _ in range(2))
    assert collect.observation_spec().keys() == {"vector"}
    editor = subprocess.Popen([sys.executable, STAND_IN, f"--mlagents-port={port}", "--agents=3"])
    try:
        assert collect.num_slots == 3
        with pytest.raises(ConfigError, match="The Editor can serve one environment, but a run"):
            evaluation.reset()
        assert collect.reset().is_first()
    finally:
        collect.close()
        editor.wait(60)


def test_with_specs_no_build_is_started_before_the_first_step(load):
    specs = load("--task", "grid").behavior.to_json()
    environment = load("--task", "grid", specs=specs)
    before = children()
    assert environment.observation_spec()["camera"].shape == (40, 40, 3)
    assert children() <= before
    assert environment.reset().is_first()
    assert len(children() - before) == 1


def test_build_with_other_specs_is_refused(load):
    specs = load("--task", "grid").behavior.to_json()
    with pytest.raises(ConfigError, match="with which the project was made"):
        load("--task", "grid", specs=specs | {"branches": [7]}).reset()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("arguments", "-nographics -batchmode",
         "a list of texts, such as ('-nographics', '-batchmode')"),
        ("arguments", ("--agents", 3), "a list of texts, such as ('-nographics',)"),
        ("arguments", None, "a list of texts, such as ('-nographics',)"),
        *(("port", port, "None, or an integer from 1 to 65535")
          for port in (65536, 70000, 0, -1, "5x", 5005.0, True)),
        *(("num_areas", count, "an integer >= 1") for count in (0, "x", None, 1.5)),
        *(("timeout_secs", secs, "a finite number > 0")
          for secs in ("a", None, 0, -1.0, float("nan"), float("inf"))),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_the_first_step(name, value, allowed):
    specs = {}  # never read
    with pytest.raises(ConfigError) as error:
        unity_adapter.load(STAND_IN, specs=specs, **{name: value})
    assert str(error.value) == f"{name}, of unity_adapter.load, is {value!r}; expected {allowed}."


def test_misspelt_engine_setting():
    with pytest.raises(
        ConfigError, match="engine has no setting 'time_scal'. Did you mean time_scale"
    ):
        unity_adapter.load(STAND_IN, engine={"time_scal": 1})
