"""Environment objects of ML-Agents; `unity/test_mlagents_client.py` has the real ones."""

import enum
import pathlib
import re
import socket
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from evaluation.test_evaluator import Params

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.observation_kinds import is_entities, is_goal
from tfagents_system.environments.base_env_adapter import BaseEnvEnvironment
from tfagents_system.environments.construction import make_eval_environment
from tfagents_system.environments.unity.base_env_agents import _behavior_of
from tfagents_system.environments.unity.behaviors import leaf_name
from tfagents_system.environments.unity.specs import observation_spec

CAMERA, VECTOR = "camera", "where am I?"


class Property(enum.IntFlag):
    """As in ML-Agents."""

    UNSPECIFIED = 0
    NONE = 1
    TRANSLATIONAL_EQUIVARIANCE = 2
    VARIABLE_SIZE = 4


class Kind(enum.Enum):
    """As in ML-Agents."""

    DEFAULT = 0
    GOAL_SIGNAL = 1


def sensor(name, shape, *properties, kind=Kind.DEFAULT):
    return SimpleNamespace(
        name=name, shape=shape, dimension_property=properties, observation_type=kind
    )


IMAGE = (Property.NONE,) + 2 * (Property.TRANSLATIONAL_EQUIVARIANCE,)
HYBRID = SimpleNamespace(
    observation_specs=[sensor(VECTOR, (2,), Property.UNSPECIFIED),
                       sensor(CAMERA, (3, 4, 5), *IMAGE)],
    action_spec=SimpleNamespace(continuous_size=1, discrete_branches=(3, 2)),
)  # fmt: skip


class Counting:
    """Agents 7 and 8 count their steps; an episode of 7 ends after 2, one of 8, by time, after 3.

    An agent keeps its id, and its next first step comes with its last one.
    """

    lengths = {7: 2, 8: 3}
    behavior_specs = None  # a property of BaseEnv

    def __init__(self, specs):
        self.behavior_specs, self.taken = specs, []
        self.is_closed = False

    def reset(self):
        self.counts = dict.fromkeys(self.lengths, 0)
        self.result = self._describe([7, 8], [0, 0], [0, 0], mask=True), self._describe([], [], [])

    def get_steps(self, name):
        return self.result

    def set_actions(self, name, action):
        self.taken.append((name, action.continuous.tolist(), action.discrete.tolist()))

    def step(self):
        ended, asking = [], []
        for agent, length in self.lengths.items():
            self.counts[agent] += 1
            if self.counts[agent] == length:
                ended.append((agent, length, 10 * agent))
                self.counts[agent] = 0
            asking.append((agent, self.counts[agent], 1 if self.counts[agent] else 0))
        self.result = (
            self._describe(*zip(*asking, strict=True), mask=True),
            self._describe(*(zip(*ended, strict=True) if ended else 3 * [[]])),
        )

    def close(self):
        self.is_closed = True

    def _describe(self, ids, counts, rewards, mask=False):
        vector = np.array([[each, count] for each, count in zip(ids, counts, strict=True)])
        image = np.broadcast_to(np.arange(3.0)[:, None, None], (len(ids), 3, 4, 5))
        forbid = [np.array([[True, False, False]] * len(ids)), np.zeros((len(ids), 2), bool)]
        return SimpleNamespace(
            obs=[vector, image], agent_id=np.array(ids, np.int32), action_mask=forbid,
            reward=np.array(rewards, np.float32), group_reward=np.full(len(ids), 0.5, np.float32),
            interrupted=np.array([each == 8 for each in ids]),
        )  # fmt: skip


def action_of(number):
    return {"continuous": np.float32([number]), "discrete": np.int32([1, 0])}


def test_agents_of_a_behavior_are_slots():
    env = Counting({"Robot?team=0": HYBRID})
    environment = BaseEnvEnvironment(env)
    assert environment.num_slots == 2
    first = environment.reset_slots([0, 1])
    observation = first[0].observation
    assert list(observation) == ["where_am_I_", "camera", "action_mask"]
    np.testing.assert_array_equal(observation["where_am_I_"], [7, 0])
    np.testing.assert_array_equal(observation["camera"], np.broadcast_to([0, 1, 2], [4, 5, 3]))
    np.testing.assert_array_equal(observation["action_mask"], [0, 1, 1, 1, 1])
    spec = environment.observation_spec()
    assert {name: leaf.shape for name, leaf in spec.items()} == {
        "where_am_I_": (2,), "camera": (4, 5, 3), "action_mask": (5,)
    }  # fmt: skip
    tape = {0: [], 1: []}
    for _ in range(6):
        answers = environment.step_slots({slot: action_of(slot) for slot in (0, 1)})
        for slot, answer in answers.items():
            tape[slot].append((int(answer.step_type), float(answer.reward), float(answer.discount)))
        # A slot whose episode has ended begins the next one.
        assert environment.reset_slots([s for s, a in answers.items() if a.is_last()]).keys() == {
            slot for slot, answer in answers.items() if answer.is_last()
        }
        assert env.taken[-1] == ("Robot?team=0", [[0.0], [1.0]], [[1, 0], [1, 0]])
    mid = (1, 1 + 0.5, 1.0)
    assert tape[0] == [mid, (2, 70 + 0.5, 0.0)] * 3  # a termination
    assert tape[1] == [mid, mid, (2, 80 + 0.5, 1.0)] * 2  # a time limit
    environment.close()
    assert env.is_closed


class WithFixed(Counting):
    """Has a branch of one choice between those of HYBRID."""

    def _describe(self, ids, *others, mask=False):
        described = super()._describe(ids, *others, mask=mask)
        described.action_mask.insert(1, np.zeros((len(ids), 1), bool))
        return described


def test_a_branch_with_one_choice_is_no_action():
    sizes = SimpleNamespace(continuous_size=1, discrete_branches=(3, 1, 2))
    env = WithFixed(
        {"A": SimpleNamespace(observation_specs=HYBRID.observation_specs, action_spec=sizes)}
    )
    environment = BaseEnvEnvironment(env)
    assert environment.action_spec()["discrete"].maximum.tolist() == [3 - 1, 2 - 1]
    first = environment.reset_slots([0, 1])[0]
    np.testing.assert_array_equal(first.observation["action_mask"], [0, 1, 1, 1, 1])
    environment.step_slots({0: action_of(0), 1: action_of(1)})
    assert env.taken[-1] == ("A", [[0.0], [1.0]], [[1, 0, 0]] * 2)


class InTurns(Counting):
    """Agent 7 asks in each step, and agent 8 only in those after a reset."""

    def reset(self):
        super().reset()
        self.result = self._describe([7], [0], [0], mask=True), self._describe([], [], [])


def test_an_agent_that_asks_later_has_a_slot():
    assert BaseEnvEnvironment(InTurns({"Robot?team=0": HYBRID})).num_slots == 2


def test_names_of_sensors_become_letters_that_policies_can_be_saved_by():
    assert leaf_name("größe 1", []) == "gr__e_1"


def test_a_behavior_without_a_choice_is_refused():
    only_fixed = SimpleNamespace(continuous_size=0, discrete_branches=(1, 1))
    specs = SimpleNamespace(observation_specs=[], action_spec=only_fixed)
    with pytest.raises(
        ConfigError, match=r"A has no actions to choose, only branches .* \[1, 1\];"
    ):
        _behavior_of("A", specs)


def test_env_ctor_may_return_one():
    params = Params(lambda *args, **kwargs: Counting({"Robot?team=0": HYBRID}))
    environment = make_eval_environment(params, seed=1)
    time_step = environment.reset()
    rewards = []
    while not time_step.is_last():
        time_step = environment.step(action_of(0))
        rewards.append(float(time_step.reward))
    assert rewards == [1 + 0.5, 70 + 0.5]
    with pytest.raises(ConfigError, match="Counting has no set_state: the curriculum needs"):
        environment.set_state({"mass": 1.0})


class Serving(Counting):
    """Listens as ML-Agents' UnityEnvironment does."""

    def __init__(self, file_name, seed, base_port, worker_id, side_channels):
        super().__init__({"Robot?team=0": HYBRID})
        assert 0 <= seed < 2**31
        self.server = socket.create_server(("127.0.0.1", base_port + worker_id))


def test_the_documented_environments_of_a_run_have_a_port_each():
    page = pathlib.Path(__file__).parents[2] / "docs" / "from_ml_agents.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "base_port" in block)
    names = {
        "socket": socket, "EnvironmentParametersChannel": object, "UnityEnvironment": Serving
    }  # fmt: skip
    exec(textwrap.dedent(code), names)
    made = [names["env_ctor"](None, seed=2**31 + k) for k in range(3)]
    for environment in made:
        environment.server.close()


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [(None, "behaviors A, B; expected one"), ("C", "no behavior 'C'; it has A, B")],
)
def test_one_of_several_behaviors_is_chosen(behavior, expected):
    env = Counting({"A": HYBRID, "B": HYBRID})
    with pytest.raises(ConfigError, match=expected):
        BaseEnvEnvironment(env, behavior)
    assert BaseEnvEnvironment(env, "B").num_slots == 2


def test_lists_of_any_length_and_goal_signals_are_told_by_the_specs():
    specs = SimpleNamespace(
        observation_specs=[
            sensor("blocks", (4, 3), Property.VARIABLE_SIZE, Property.NONE),
            sensor("table", (4, 3), Property.UNSPECIFIED, Property.UNSPECIFIED),
            sensor("target", (2,), Property.NONE, kind=Kind.GOAL_SIGNAL),
        ],
        action_spec=SimpleNamespace(continuous_size=1, discrete_branches=()),
    )
    spec = observation_spec(_behavior_of("Yard?team=0", specs))
    assert [name for name, leaf in spec.items() if is_entities(leaf)] == ["blocks"]
    assert [name for name, leaf in spec.items() if is_goal(leaf)] == ["target"]
