import itertools
import pathlib

import numpy as np
import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.unity import side_channels
from tfagents_system.environments.unity.agents import UnityAgents
from tfagents_system.environments.unity.behaviors import Behavior
from tfagents_system.environments.unity.connection import Connection

STAND_IN = str(pathlib.Path(__file__).with_name("stand_in.py"))


@pytest.fixture
def make():
    made = []

    def make_agents(*arguments, behavior=None, seed=0, num_areas=1):
        connection = Connection(STAND_IN, arguments=arguments, seed=seed, num_areas=num_areas)
        made.append(connection)
        return UnityAgents(connection, behavior)

    yield make_agents
    for connection in made:
        connection.close()


def tilted(steps):
    return {each: np.ones(2, np.float32) for each in steps.asking}


def test_episodes_of_agents_are_complete_and_apart(make):
    agents = make("--agents", "4", seed=5)
    steps = agents.reset()
    episodes = {each: [step] for each, step in steps.asking.items()}
    while len(agents_ended := [e for e in episodes.values() if e[-1].is_last()]) < 8:
        before = set(steps.asking)
        steps = agents.step(tilted(steps))
        assert set(steps.ended) <= before  # an id ends only after it has asked
        assert len(steps.asking) == 4
        for each, step in [*steps.ended.items(), *steps.asking.items()]:
            episodes.setdefault(each, []).append(step)
    for episode in agents_ended:
        assert [int(step.step_type) for step in episode] == [0] + [1] * (len(episode) - 2) + [2]
        assert [float(step.reward) for step in episode] == pytest.approx(
            [0.0] + [0.1] * (len(episode) - 2) + [-1.0]
        )
        assert [float(step.discount) for step in episode] == [1.0] * (len(episode) - 1) + [0.0]
        for step, next_step in itertools.pairwise(episode):
            position, next_position = (
                each.observation["vector"][[2, 4]] for each in (step, next_step)
            )
            # At a speed of at most 3 per second, a decision of 0.1 s moves the ball less than that.
            assert abs(next_position - position).max() < 0.5


def test_time_limits_are_no_terminations(make):
    agents = make("--task", "grid", "--agents", "1")
    steps = agents.reset()
    for _ in range(100):  # stays in its cell until the limit of 100 decisions
        assert not steps.ended
        steps = agents.step({each: np.array([0]) for each in steps.asking})
    (last,) = steps.ended.values()
    assert (last.is_last(), float(last.discount), float(last.reward)) == (
        True, 1.0, pytest.approx(-0.01),
    )  # fmt: skip


def test_reset_begins_all_episodes_anew(make):
    agents = make("--agents", "2")
    steps = agents.reset()
    before = set(steps.asking)
    steps = agents.reset()
    assert not steps.ended and all(step.is_first() for step in steps.asking.values())
    assert not before & set(steps.asking)


def test_several_behaviors_need_a_choice(make):
    with pytest.raises(ConfigError, match=r"behaviors 3DBall\?team=0, Hybrid\?team=0; expected"):
        make("--task", "ball,hybrid")
    with pytest.raises(ConfigError, match=r"no behavior 'Hybird'.* Did you mean Hybrid\?"):
        make("--task", "ball,hybrid", behavior="Hybird")


def test_agents_of_other_behaviors_get_zeros(make):
    agents = make("--task", "ball,hybrid", "--agents", "2", behavior="Hybrid")
    steps = agents.reset()
    for _ in range(3):
        steps = agents.step(
            {
                each: {"continuous": np.zeros(2, np.float32), "discrete": np.array([1, 0])}
                for each in steps.asking
            }
        )
    # 0.1 is doubled by integer 1 of the first branch.
    assert [float(step.reward) for step in steps.asking.values()] == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize("turns", [1, 3, 5])
def test_agents_that_ask_in_turns_are_counted(make, turns):
    agents = make("--agents", "5", "--turns", str(turns))
    assert agents.num_agents == 5
    steps = agents.reset()
    # Agent k asks in each such step from k: 0 and 3 of 5 in the first of 3.
    assert len(steps.asking) == -(-5 // turns)
    assert all(step.is_first() for step in steps.asking.values())


def test_a_behavior_whose_agents_ask_later_than_others_is_found(make):
    agents = make("--task", "ball,hybrid", "--agents", "1", "--turns", "2", behavior="Hybrid")
    assert (agents.behavior.name, agents.num_agents) == ("Hybrid?team=0", 1)


def test_a_branch_with_one_choice_is_no_action(make):
    agents = make("--task", "fixed", "--agents", "2")
    assert (agents.behavior.branches, agents.behavior.fixed_branches) == ((3, 2), (0, 2))
    steps = agents.reset()
    for _ in range(3):
        for step in steps.asking.values():
            is_right = step.observation["vector"][2] > 0  # which forbids the last of three
            assert step.observation["action_mask"].tolist() == [1, 1, 1 - is_right, 1, 1]
        steps = agents.step(  # the stand-in demands 0 in the branches of one
            {
                each: {"continuous": np.zeros(2, np.float32), "discrete": np.array([1, 0])}
                for each in steps.asking
            }
        )
    # 0.1 is doubled by integer 1 of the branch of three.
    assert [float(step.reward) for step in steps.asking.values()] == pytest.approx([0.2, 0.2])
    assert Behavior.from_json(agents.behavior.to_json()) == agents.behavior


class Heard(Connection):
    """Keeps the gravity that each of Unity's messages reports."""

    def exchange(self, inputs):
        output = super().exchange(inputs)
        (statistic,) = side_channels.statistics(output.output.channels)
        self.gravities = [*getattr(self, "gravities", ()), statistic.value]
        return output


def test_parameters_come_with_the_first_message():
    connection = Heard(STAND_IN)
    try:
        UnityAgents(connection, parameters={"gravity": 1.5})
        assert set(connection.gravities) == {1.5}
    finally:
        connection.close()


def test_wrong_parameters_close_the_connection():
    connection = Connection(STAND_IN)
    process = connection._process
    with pytest.raises(ConfigError, match="parameter 'größe', of .* names of ASCII char"):
        UnityAgents(connection, parameters={"größe": 1.5})
    assert process.poll() is not None


def test_parameters_areas_and_statistics(make):
    agents = make("--agents", "2", num_areas=3)
    agents.set_parameters({"gravity": 4.0})
    steps = agents.reset()
    assert len(steps.asking) == 2 * 3
    assert agents.statistics == {"Gravity": 4.0}  # the newest: before, it was 9.81


def test_same_seed_same_episodes(make):
    first, second = (
        [s.observation["vector"] for s in make(seed=9).reset().asking.values()] for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_behavior_as_json(make):
    behavior = make("--task", "grid").behavior
    assert Behavior.from_json(behavior.to_json()) == behavior
