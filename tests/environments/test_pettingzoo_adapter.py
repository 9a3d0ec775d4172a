"""PettingZoo's parallel environments: agents that come, go, and share a policy."""

import gymnasium
import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from collection.test_side_by_side import RecurrentPolicy
from evaluation.test_evaluator import Params
from fakes import FakeClock
from hypothesis import strategies as st
from parallel_fakes import ParallelWorld
from replay_fakes import SleepingWatchdog
from tf_agents.environments import utils
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.side_by_side import SideBySide
from tfagents_system.collection.slot_environments import SimulatorSlots
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import step_codec
from tfagents_system.environments import pettingzoo_adapter
from tfagents_system.environments.construction import make_eval_environment
from tfagents_system.environments.pettingzoo_adapter import ParallelEnvironment
from tfagents_system.environments.replaceable import ReplaceableEnvironment
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.item_recorder import ItemRecorder

LAYOUTS = [
    SINGLE,
    ItemLayout(8, n_step=3),
    ItemLayout(5, is_sequence=True),
    ItemLayout(6, is_sequence=True, is_segment=True, burn_in=2),
]


def side_by_side(environment, observe, horizon=10**6, log_info=()):
    replaceable = ReplaceableEnvironment(environment, lambda _: environment, SleepingWatchdog())
    slots = SimulatorSlots(replaceable)
    numbers = [InfoNumbers(log_info) for _ in range(slots.num_slots)]
    return SideBySide(slots, horizon, observe, PhaseTimer("", FakeClock()), numbers)


def run(episodes, policy, num_ticks, on_end=lambda slot: None):
    ends = []
    for _ in range(num_ticks):
        states = {slot: {} for slot in episodes.idle_slots}
        for end in [*episodes.begin(policy, states), *episodes.tick(policy)]:
            on_end(end.slot)
            ends.append(end)
    return ends


def time_steps_of(episode):
    """Returns the time steps (before, after) of an episode of a tape."""
    for index, (before, action, reward, after, terminated, truncated) in enumerate(episode):
        make = ts.restart if index == 0 else lambda o: ts.transition(o, np.float32(0))
        is_last = terminated or truncated
        next_step = ts.TimeStep(
            ts.StepType.LAST if is_last else ts.StepType.MID,
            np.float32(reward), np.float32(not terminated), after,
        )  # fmt: skip
        yield make(before), action, next_step


def sorted_items(recorders):
    return sorted(b"".join(map(bytes, item)) for recorder in recorders for item in recorder.items)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@hypothesis.given(
    seed=st.integers(0, 10**6),
    num_agents=st.integers(2, 4),
    ends=st.sampled_from([0.0, 0.2, 0.6]),
    comes=st.sampled_from([0.0, 0.5]),
)
@hypothesis.settings(max_examples=12, deadline=None)
def test_replay_gets_what_one_agent_after_another_would_give(layout, seed, num_agents, ends, comes):
    world = ParallelWorld(num_agents, ends, limit=7, comes=comes)
    environment, policy = ParallelEnvironment(world, seed), RecurrentPolicy()
    extras = [tf.TensorSpec([2], tf.float32)] if layout.is_sequence else ()
    codec = step_codec(environment.observation_spec(), environment.action_spec(), layout, extras)
    shared = ItemRecorder()
    adder = Adder(shared, codec, layout, num_slots=num_agents, burst_length=7)
    episodes = {slot: [] for slot in range(num_agents)}  # numbers of them

    def observe(slot, time_step, *others):
        assert adder.add(time_step, *others, slot)
        if time_step.is_first():
            episodes[slot].append(int(time_step.observation[1]))
        return True

    run(side_by_side(environment, observe), policy, 40, adder.end_episode)
    for slot in range(num_agents):
        adder.end_episode(slot)
    while adder.send():
        pass

    assert sorted(sum(episodes.values(), [])) == [n for n, steps in enumerate(world.tape) if steps]
    recorders = []
    for of_slot in episodes.values():
        recorders.append(ItemRecorder())
        alone = Adder(recorders[-1], codec, layout)
        for number in of_slot:
            state = policy.initial_state()
            for time_step, action, next_time_step in time_steps_of(world.tape[number]):
                expected, state = policy.action(time_step, state)
                np.testing.assert_array_equal(action, expected)
                alone.add(time_step, action, next_time_step, state)
            alone.end_episode()
        while alone.send():
            pass
    assert sorted_items([shared]) == sorted_items(recorders)
    assert sum(map(len, world.tape)) >= 40


def test_time_limits_have_discount_1_and_terminations_0():
    seen = []

    def observe(slot, time_step, action, next_time_step, state):
        seen.append((bool(next_time_step.is_last()), float(next_time_step.discount)))
        return True

    for ends in (0.0, 1.0):
        environment = ParallelEnvironment(ParallelWorld(ends=ends, limit=2), 0)
        run(side_by_side(environment, observe), RecurrentPolicy(), 8)
    assert {pair for pair in seen if pair[0]} == {(True, 1.0), (True, 0.0)}
    assert {pair for pair in seen if not pair[0]} == {(False, 1.0)}


def test_the_first_reset_has_the_seed_and_the_world_goes_on_by_itself():
    world = ParallelWorld(limit=2, ends=0.0)
    run(side_by_side(ParallelEnvironment(world, 7), lambda *_: True), RecurrentPolicy(), 8)
    assert world.seeds == [7] + [None] * 3


def test_parameters_hold_for_the_episodes_that_begin_after_them():
    class Told(ParallelWorld):
        told, at_resets = None, []

        def reset(self, seed=None, options=None):
            self.at_resets.append(self.told)
            return super().reset(seed, options)

    world = Told(limit=2, ends=0.0)
    environment = ParallelEnvironment(world, 7)
    world.at_resets.clear()  # those before the first episode
    slots = side_by_side(environment, lambda *_: True)
    policy = RecurrentPolicy()
    for value in range(3):
        world.told = value  # as a curriculum does before episodes begin
        assert not list(slots.begin(policy, {slot: {} for slot in slots.idle_slots}))
        while slots.are_running:
            list(slots.tick(policy))
    assert world.at_resets == [0, 1, 2]


def test_a_horizon_that_cuts_all_agents_together_resets_the_world():
    world = ParallelWorld(limit=100, ends=0.0)
    ends = run(
        side_by_side(ParallelEnvironment(world), lambda *_: True, horizon=4), RecurrentPolicy(), 12
    )
    assert [end.result.length for end in ends] == [4] * 9
    assert len(world.seeds) == 3 and [len(episode) for episode in world.tape] == [4] * 9


def test_numbers_of_the_info_are_those_of_the_agent():
    environment = ParallelEnvironment(ParallelWorld(limit=3, ends=0.0), 0)
    ends = run(
        side_by_side(environment, lambda *_: True, log_info=["position:last"]), RecurrentPolicy(), 3
    )
    assert {end.slot: end.result.numbers["position_last"] for end in ends} == {
        slot: 100 * slot + 3 for slot in range(3)
    }


@pytest.mark.parametrize("mask", ["info", "observation"])
def test_masks_reach_the_policy_and_the_last_one_may_be_empty(mask):
    world = ParallelWorld(space=gymnasium.spaces.Discrete(4), mask=mask)
    environment = ParallelEnvironment(world, 3)
    spec = environment.observation_spec()
    assert set(spec) == {"observation", "action_mask"}
    assert (spec["action_mask"].shape, spec["action_mask"].dtype) == ((4,), np.float32)
    masks = []

    def observe(slot, time_step, action, next_time_step, state):
        masks.append((time_step.observation["action_mask"], action))
        if next_time_step.is_last():
            assert next_time_step.observation["action_mask"].tolist() == [1] * 4
        return True

    run(side_by_side(environment, observe), RandomPolicy(environment.action_spec(), 0), 30)
    assert len(masks) > 30
    assert all(given.tolist() == np.eye(4)[int(action)].tolist() for given, action in masks)
    assert world.seeds[: 1 + (mask == "info")] == [3] * (1 + (mask == "info"))


def test_a_mask_that_allows_nothing_names_the_agent():
    world = ParallelWorld(space=gymnasium.spaces.Discrete(4), mask="observation")
    world.mask_of = lambda step, is_last=False: np.zeros(4, np.int8)
    with pytest.raises(ConfigError, match="The action mask allows no action of agent 'walker_0'"):
        ParallelEnvironment(world).agents.reset()


@pytest.mark.parametrize("mask", [None, "info", "observation"])
def test_as_a_single_environment_it_follows_one_agent(mask):
    space = gymnasium.spaces.Discrete(4) if mask else None
    environment = ParallelEnvironment(ParallelWorld(space=space, mask=mask, ends=0.1), 0)
    if mask is None:
        utils.validate_py_environment(environment, episodes=4)
    for _ in range(5):
        time_step = environment.reset()
        number = np.ravel(time_step.observation["observation"] if mask else time_step.observation)
        while not time_step.is_last():
            time_step = environment.step(environment.agents.idle_action(time_step.observation))
            plain = time_step.observation["observation"] if mask else time_step.observation
            assert plain[:2].tolist() == number[:2].tolist()
        assert environment.get_info()["position"] == 100 * plain[0] + plain[2]


class TwoKinds(ParallelWorld):
    def action_space(self, agent):
        return gymnasium.spaces.Discrete(2 + self.possible_agents.index(agent))


class NobodyWorld(ParallelWorld):
    def reset(self, seed=None, options=None):
        return {}, {}


class OldWorld(ParallelWorld):
    def reset(self, seed=None, options=None):
        return super().reset(seed)[0]


@pytest.mark.parametrize(
    "world, message",
    [
        (TwoKinds(2), r"TwoKinds has agents with different action spaces: 'walker_0' has "
         r"Discrete\(2\), 'walker_1' has Discrete\(3\). Expected equal ones"),
        (ParallelWorld(0), "ParallelWorld.possible_agents is empty"),
        (NobodyWorld(), "NobodyWorld.reset returned no agent"),
        (OldWorld(), "OldWorld.reset returned a dict; a parallel environment of PettingZoo"),
        (ParallelWorld(space=gymnasium.spaces.Text(3)), "has the action space Text"),
    ],
)  # fmt: skip
def test_what_cannot_share_a_policy_is_refused(world, message):
    with pytest.raises(ConfigError, match=message):
        ParallelEnvironment(world).agents.reset()


def test_an_agent_that_leaves_without_a_last_observation_is_a_failure():
    class Vanishing(ParallelWorld):
        def step(self, actions):
            results = super().step(actions)
            for part in results:
                part.pop("walker_1")
            self.agents.remove("walker_1")
            return results

    environment = ParallelEnvironment(Vanishing(ends=0.0))
    steps = environment.agents.reset()
    with pytest.raises(ValueError, match="agent 'walker_1' of Vanishing has left without a last"):
        environment.agents.step(dict.fromkeys(steps.asking, np.zeros(1, np.float32)))


class EditingWorld(ParallelWorld):
    """`edit` changes the results of a step."""

    def __init__(self, edit, **kwargs):
        super().__init__(**kwargs)
        self._edit = edit

    def step(self, actions):
        return self._edit(self, *super().step(actions))


def without_reward(world, observations, rewards, *others):
    rewards.pop("walker_1")
    return observations, rewards, *others


def without_truncations(world, observations, rewards, terminations, truncations, infos):
    return observations, rewards, terminations, dict.fromkeys(truncations, False), infos


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (without_reward, "EditingWorld.step returned no reward of agent 'walker_1'; a parallel"),
        (without_truncations, "has left `agents` of EditingWorld, but neither its termination nor"),
        (lambda world, *results: results[:4], r"returned 4 values; expected \(observations, rew"),
        (lambda world, *results: (*results[:4], None), "infos\\), five dicts by agent"),
        (lambda world, *results: None, "EditingWorld.step returned a NoneType; expected"),
    ],
)
def test_a_step_that_is_not_of_the_parallel_api_is_told_what(edit, message):
    agents = ParallelEnvironment(EditingWorld(edit, ends=0.0, limit=1)).agents
    steps = agents.reset()
    with pytest.raises((ValueError, ConfigError), match=message):
        agents.step(dict.fromkeys(steps.asking, np.zeros(1, np.float32)))


def test_an_agent_that_is_still_observed_after_its_end_begins_no_episode():
    def observed_for_ever(world, observations, *others):
        gone = [agent for agent in world.possible_agents if agent not in observations]
        return observations | {agent: np.zeros(3, np.float32) for agent in gone}, *others

    plain, observed = (
        run(
            side_by_side(environment, lambda *_: True),
            RandomPolicy(environment.action_spec(), 0),
            40,
        )
        for environment in (
            ParallelEnvironment(ParallelWorld(ends=0.3), 1),
            ParallelEnvironment(EditingWorld(observed_for_ever, ends=0.3), 1),
        )
    )
    assert observed == plain and len(plain) > 20


def test_env_ctor_may_return_a_parallel_environment_unchanged():
    environment = make_eval_environment(Params(lambda *args, seed: ParallelWorld()), seed=5)
    assert environment.reset().is_first()
    assert environment.observation_spec().shape == (3,)
    assert environment.num_slots == 3


def test_an_environment_may_set_its_agents_in_its_first_reset():
    class Late(ParallelWorld):
        def __init__(self):
            super().__init__()
            del self.agents

    environment = make_eval_environment(Params(lambda *args, seed: Late()), seed=5)
    assert environment.reset().is_first()
    assert environment.step(np.zeros(1, np.float32)).observation.shape == (3,)


def test_an_environment_whose_agents_act_in_turn_is_refused():
    class InTurn(ParallelWorld):
        def agent_iter(self):
            return iter(self.possible_agents)

    with pytest.raises(ConfigError, match="InTurn, an environment of PettingZoo whose agents act"):
        make_eval_environment(Params(lambda *args, seed: InTurn()), seed=5)


@pytest.mark.parametrize(
    "module, message",
    [("no_such_world.simple_v3", "Cannot import no_such_world"), ("json", "has no parallel_env")],
)
def test_load_names_what_is_missing(module, message):
    with pytest.raises(ConfigError, match=message):
        pettingzoo_adapter.load(module)
