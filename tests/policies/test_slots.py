"""Acting in several slots at once."""

import numpy as np
import pytest
import tree
from fakes import CountingEnv
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.construction import make_agent
from tfagents_system.policies.acting import AgentPolicies, RandomPolicy, TfActingPolicy
from tfagents_system.train_params_base import TrainParamsBase

NUM_SLOTS = 4
BOX = array_spec.BoundedArraySpec([2], np.float32, [-1, 2], [5, 2.5])
ONE_OF_3 = array_spec.BoundedArraySpec([], np.int64, 1, 3)
TWO_CHOICES = array_spec.BoundedArraySpec([2], np.int64, [0, 1], [2, 2])


class SpecEnv(CountingEnv):
    """Has an action of any kind; with `has_mask` its observation says which integers may be."""

    def __init__(self, action_spec, num_integers=0):
        super().__init__()
        self._spec, self._num_integers = action_spec, num_integers

    def action_spec(self):
        return self._spec

    def observation_spec(self):
        vector = array_spec.ArraySpec([3], np.float32, "x")
        if not self._num_integers:
            return vector
        mask = array_spec.BoundedArraySpec([self._num_integers], np.float32, 0, 1, "action_mask")
        return {"x": vector, "action_mask": mask}

    def observe(self, rng):
        vector = rng.normal(size=3).astype(np.float32)
        if not self._num_integers:
            return vector
        mask = rng.integers(0, 2, self._num_integers).astype(np.float32)
        mask[[0, 2, self._num_integers - 1]] = 1  # one of each choice at least
        return {"x": vector, "action_mask": mask}


class ImageEnv(SpecEnv):
    """Observes an image of bytes, with a mask."""

    def observation_spec(self):
        image = array_spec.BoundedArraySpec([5, 5, 3], np.uint8, 0, 255, "camera")
        return super().observation_spec() | {"x": image}

    def observe(self, rng):
        return super().observe(rng) | {"x": rng.integers(0, 256, (5, 5, 3), np.uint8)}


def params(**values):
    class Params(TrainParamsBase):
        actor_fc_layer_params = (6, 5)
        critic_joint_fc_layer_params = (4,)

        def env_ctor(self, *args, seed=None, **kwargs):
            raise AssertionError("not needed here")

    made = Params({"horizon": 20})
    for name, value in values.items():
        setattr(made, name, value)
    return made


def set_randomly(policies):
    rng, values = np.random.default_rng(1), []
    for variable in policies.variables:
        value = rng.normal(0, 0.2, variable.shape).astype(np.float32)
        values.append(abs(value) if "variance" in variable.name else value)
    policies.update(values)


def check_that_slots_act_alone(together, alone, environment):
    """Acts in random slots for some ticks; some episodes end and begin anew."""
    rng = np.random.default_rng(2)
    states = [together.initial_state(slot) for slot in range(NUM_SLOTS)]
    lone_states = [policy.initial_state() for policy in alone]
    for tick in range(12):
        if tick in (3, 7):
            slot = tick % NUM_SLOTS
            states[slot] = together.initial_state(slot)
            lone_states[slot] = alone[slot].initial_state()
        slots = rng.permutation(NUM_SLOTS)[: rng.integers(1, NUM_SLOTS + 1)].tolist()
        time_steps = [ts.restart(environment.observe(rng)) for _ in slots]
        actions, new_states = together.actions(slots, time_steps, [states[slot] for slot in slots])
        for slot, time_step, action, state in zip(
            slots, time_steps, actions, new_states, strict=True
        ):
            expected, lone_states[slot] = alone[slot].action(time_step, lone_states[slot])
            tree.map_structure(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
                (action, state),
                (expected, lone_states[slot]),
            )
            for leaf, expected_leaf in zip(
                tree.flatten(action), tree.flatten(expected), strict=True
            ):
                assert (leaf.dtype, leaf.shape) == (expected_leaf.dtype, expected_leaf.shape)
            states[slot] = state


ENVIRONMENTS = {
    "box": SpecEnv(BOX),
    "discrete": SpecEnv(ONE_OF_3),
    "choices": SpecEnv(TWO_CHOICES),
    "masked": SpecEnv(ONE_OF_3, 3),
    "masked choices": SpecEnv(TWO_CHOICES, 5),
    "hybrid": SpecEnv({"arm": BOX, "grip": ONE_OF_3, "legs": TWO_CHOICES}),
    "masked hybrid": SpecEnv({"arm": BOX, "grip": ONE_OF_3}, 3),
}
SETTINGS = [
    ("box", {}),
    ("box", {"normalize_observations": True}),
    ("box", {"algorithm": "crossq"}),
    ("box", {"recurrent": True, "rnn_type": "lstm"}),
    ("box", {"recurrent": True, "rnn_type": "gru", "exploration_noise_beta": 1.0}),
    ("box", {"algorithm": "td3"}),
    ("box", {"algorithm": "ddpg", "exploration_noise": "ornstein_uhlenbeck", "recurrent": True}),
    *((name, {}) for name in ENVIRONMENTS if name != "box"),
    ("masked hybrid", {"recurrent": True}),
]


@pytest.mark.parametrize("name, settings", SETTINGS, ids=str)
def test_each_slot_acts_as_if_it_were_alone(name, settings):
    environment, beta = ENVIRONMENTS[name], settings.get("exploration_noise_beta", 0.0)
    agent, _ = make_agent(params(**settings), environment)
    together = AgentPolicies(agent, np.random.default_rng(3), beta, NUM_SLOTS)
    generators = np.random.default_rng(3).spawn(NUM_SLOTS)
    alone = [AgentPolicies(agent, rng, beta) for rng in generators]
    for policies in (together, *alone):
        assert policies.obstacle is None
        set_randomly(policies)
    check_that_slots_act_alone(together.collect, [p.collect for p in alone], environment)
    check_that_slots_act_alone(together.greedy, [p.greedy for p in alone], environment)


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("environment", [ENVIRONMENTS["box"], ImageEnv(ONE_OF_3, 3)], ids=type)
def test_each_slot_acts_as_if_it_were_alone_in_tensorflow(environment, recurrent):
    agent, _ = make_agent(params(recurrent=recurrent), environment)
    together, alone = (TfActingPolicy(agent.policy) for _ in range(2))
    check_that_slots_act_alone(together, [alone] * NUM_SLOTS, environment)


def test_random_actions_of_slots_differ_and_keep_to_their_masks():
    environment = ENVIRONMENTS["masked hybrid"]
    policy, rng = RandomPolicy(environment.action_spec(), seed=0), np.random.default_rng(0)
    states = [policy.initial_state(slot) for slot in range(NUM_SLOTS)]
    arms = set()
    for _ in range(20):
        steps = [ts.restart(environment.observe(rng)) for _ in range(NUM_SLOTS)]
        actions, states = policy.actions(range(NUM_SLOTS), steps, states)
        assert all(
            step.observation["action_mask"][action["grip"] - 1]
            for step, action in zip(steps, actions, strict=True)
        )
        arms |= {float(action["arm"][0]) for action in actions}
    assert len(arms) == 20 * NUM_SLOTS
    assert states == [()] * NUM_SLOTS
