"""Replay buffers of experiments as demonstrations: their episodes are those that workers did."""

import dataclasses
import itertools
import shutil

import numpy as np
import pytest
import tensorflow as tf
from fakes import UNRIVALLED
from replay_fakes import ONE_ACTION, UNLIMITED, EpisodeStepEnv, make_experiment, serving
from tf_agents.specs import array_spec

from tfagents_system.commands.demonstrations import demonstrations
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import write_json_atomically
from tfagents_system.core.state.generations import (
    generation_dir,
    publish_generation,
    unfinished_dir,
)
from tfagents_system.core.state.run_spec import RunSpec
from tfagents_system.data.item_description import describe_item
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.run_views import describe_specs
from tfagents_system.data.sample_reader import step_codec
from tfagents_system.demonstrations import replay as replay_module
from tfagents_system.demonstrations.files import check_demonstrations, read_demonstrations
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Journal, Stream
from tfagents_system.services.replay_limits import ReplayLimits

HORIZON = 6
ENDS = [(3, 0.0), (4, 1.0), (9, 0.0), (1, 0.0), (6, 0.0), (2, 1.0)]
LAYOUTS = [
    SINGLE,
    ItemLayout(2),
    ItemLayout(8),
    ItemLayout(2, n_step=3),
    ItemLayout(3, is_sequence=True),
    ItemLayout(4, is_sequence=True, is_segment=True, burn_in=1),
    ItemLayout(4, is_sequence=True, is_segment=True),
]


class Nested(EpisodeStepEnv):
    """Observes and acts in nests, whose leaves have dtypes of their own."""

    def observation_spec(self):
        return {
            "step": array_spec.ArraySpec([], np.int64),
            "arm": (array_spec.ArraySpec([1, 2], np.float32), array_spec.ArraySpec([1], np.uint8)),
        }

    def action_spec(self):
        return {"push": ONE_ACTION, "gear": array_spec.BoundedArraySpec([], np.int32, 0, 2)}

    def _observation(self):
        both = super()._observation()
        return {"step": np.int64(both[1]), "arm": (both[np.newaxis], both[:1].astype(np.uint8))}


class Pictures(EpisodeStepEnv):
    """Observes the two newest of its images, channels last."""

    def observation_spec(self):
        return array_spec.ArraySpec([20, 20, 2], np.uint8)

    def _observation(self):
        both = super()._observation()
        newest = [10 * both[0] + max(0, both[1] - back) for back in (1, 0)]
        return np.ones([20, 20, 1], np.uint8) * np.array(newest, np.uint8)


def did(environment, adder, slot, tape, num_episodes):
    """Does episodes, adds their steps to adder and tape, and yields after each."""
    policy = RandomPolicy(environment.action_spec(), seed=slot)
    for _ in range(num_episodes):
        time_step, rows, discount = environment.reset(), [], 1.0
        rows.append((time_step.observation, (), 0.0))
        for _ in range(HORIZON):
            action, _ = policy.action(time_step, ())
            next_time_step = environment.step(action)
            assert adder.add(time_step, action, next_time_step, (), slot)
            time_step = next_time_step
            rows.append((time_step.observation, action, float(time_step.reward)))
            discount = float(time_step.discount)
            if time_step.is_last():
                break
            yield
        adder.end_episode(slot)
        tape.append((rows, discount))
        yield


def save(tmp_path, environments, layout, is_numbered=True, limits=UNLIMITED, num_episodes=12):
    """An experiment after episodes of several slots in turns; its paths and the episodes."""
    environment = environments[0]
    specs = environment.observation_spec(), environment.action_spec()
    states = [tf.TensorSpec([2], tf.float32)] if layout.is_sequence else ()
    codec = step_codec(*specs, layout, states, stores_return=not layout.is_sequence)
    paths = make_experiment(tmp_path / "old")
    journal = Journal(tmp_path / "journals", Stream(0, 1), codec.columns, layout.rows, 10**6,
                      UNRIVALLED) if is_numbered else None  # fmt: skip
    tape = []
    with serving(tmp_path / "reverb", limits) as replay:
        adder = Adder(replay.client(), codec, layout, journal, num_slots=len(environments))
        slots = [did(e, adder, slot, tape, num_episodes) for slot, e in enumerate(environments)]
        for _ in itertools.zip_longest(*slots):
            while adder.is_burst_due:
                adder.send()
        while adder.send():
            pass
        assert adder.is_confirmed(timeout_secs=60)
        unfinished = unfinished_dir(paths.checkpoints, 10, UNRIVALLED)
        unfinished.mkdir(parents=True)
        shutil.move(replay.client().checkpoint(), unfinished / "replay")
    publish_generation(unfinished, paths.checkpoints, 10, {}, UNRIVALLED)
    described = map(describe_specs, specs)
    item = describe_item(layout, codec.columns)
    spec = RunSpec(0, [], HORIZON, {}, *described, item, {}, None)
    write_json_atomically(paths.run_spec, dataclasses.asdict(spec))
    return paths, tape


def transitions(episodes):
    """Each transition as a hashable value, with whether it is the first and whether terminal."""
    found = []
    for rows, discount in episodes:
        for index in range(len(rows) - 1):
            (before, *_), (after, action, reward) = rows[index : index + 2]
            is_terminal = index == len(rows) - 2 and discount == 0
            leaves = tf.nest.flatten([before, after, action])
            found.append((*(np.asarray(leaf).tobytes() for leaf in leaves), reward, is_terminal))
    return found


def as_rows(episode, observation, action):
    """A read episode as `did` has it; the arguments make nests of its arrays."""
    rows = [(observation(episode.observations, 0), (), 0.0)]
    for index in range(episode.length):
        rows.append((observation(episode.observations, index + 1),
                     action(episode.actions, index), float(episode.rewards[index])))  # fmt: skip
    return rows, 0.0 if episode.end == "terminated" else 1.0


def plain(name):
    return lambda arrays, index: arrays[name][index]


def read_rows(paths):
    return [
        as_rows(e, plain("observation"), plain("action")) for e in read_demonstrations(paths.root)
    ]


@pytest.mark.parametrize("num_slots", [1, 3])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_episodes_are_those_of_the_workers(layout, num_slots, tmp_path):
    paths, tape = save(tmp_path, [EpisodeStepEnv(ENDS) for _ in range(num_slots)], layout)
    found = read_rows(paths)
    done, read = transitions(tape), transitions(found)
    assert len(read) == len(set(read)), "each is there once"
    assert set(read) <= set(done)
    # A block that is not full has not been sent.
    num_waiting = num_slots * (layout.rows if layout.is_block else 0)
    assert len(done) - num_waiting <= len(read) <= len(done) > 30 * num_slots
    whole = [rows for rows, _ in tape]
    cut = [rows for rows, _ in found if not any(same(rows, other) for other in whole)]
    assert len(cut) <= (num_slots if layout.is_block else 0)
    assert len(found) <= len(tape)


def same(rows, others):
    return transitions([(rows, 1.0)]) == transitions([(others, 1.0)])


def test_items_without_numbers_are_joined_in_the_order_of_their_arrival(tmp_path, capsys):
    paths, tape = save(tmp_path, [EpisodeStepEnv(ENDS)], SINGLE, is_numbered=False)
    assert transitions(read_rows(paths)) == transitions(tape)
    capsys.readouterr()
    assert demonstrations("show", paths.root) == 0
    num_steps = 2 * (3 + 4 + HORIZON + 1 + 6 + 2)
    first = f"{paths.root}: 12 episodes, {num_steps} env steps, of old"
    assert capsys.readouterr().out.splitlines()[0] == first


def test_nests_have_leaves_of_the_same_names_and_dtypes_as_recorded_ones(tmp_path):
    paths, tape = save(tmp_path, [Nested(ENDS)], SINGLE)
    episodes = read_demonstrations(paths.root)
    assert episodes[0].spec == {
        "observation/arm/0": "float32 [1, 2]",
        "observation/arm/1": "uint8 [1]",
        "observation/step": "int64 []",
        "action/gear": "int32 []",
        "action/push": "float32 [1]",
        "reward": "float32 []",
    }
    rows = [
        as_rows(
            episode,
            lambda arrays, index: [arrays[name][index] for name in sorted(arrays)],
            lambda arrays, index: [arrays[name][index] for name in sorted(arrays)],
        )
        for episode in episodes
    ]
    assert transitions(rows) == transitions(tape)
    assert episodes[0].environment == "old"


def test_frames_are_single_and_an_episode_without_its_beginning_is_left_out(tmp_path):
    limits = ReplayLimits(capacity=16, min_size=1, samples_per_insert=1.0, error_buffer=1e9)
    layout = ItemLayout(1, frame_stack=2)
    paths, tape = save(tmp_path, [Pictures([(6, 0.0)])], layout, limits=limits)
    episodes = read_demonstrations(paths.root)
    # 16 items are the last two episodes of 6 env steps, and the rest of the one before.
    assert [episode.length for episode in episodes] == [6, 6]
    for episode, (rows, _) in zip(episodes, tape[-2:], strict=True):
        frames = np.stack([observation[..., 1:] for observation, *_ in rows])
        np.testing.assert_array_equal(episode.observations["observation"], frames)


def test_the_rest_of_an_episode_of_vectors_is_an_episode(tmp_path):
    limits = ReplayLimits(capacity=17, min_size=1, samples_per_insert=1.0, error_buffer=1e9)
    paths, tape = save(tmp_path, [EpisodeStepEnv([(6, 1.0)])], SINGLE, limits=limits)
    assert transitions(read_rows(paths)) == transitions(tape)[-17:]


def test_what_cannot_be_read_is_refused_by_words(tmp_path, monkeypatch):
    paths, _ = save(tmp_path, [EpisodeStepEnv(ENDS)], SINGLE)
    check_demonstrations(paths.root)
    monkeypatch.setattr(replay_module, "MAX_BYTES", 10)
    with pytest.raises(ConfigError, match=r"has [0-9,]+ bytes; as demonstrations, 10 are allowed"):
        read_demonstrations(paths.root)
    spec = RunSpec.read(paths.run_spec)
    changed = dataclasses.replace(spec, action={"all": "float32 [9] from -1 to 1"})
    write_json_atomically(paths.run_spec, dataclasses.asdict(changed))
    with pytest.raises(ConfigError, match="has rows of 7 float32, where this version reads 14"):
        read_demonstrations(paths.root)
    paths.run_spec.unlink()
    with pytest.raises(ConfigError, match="which describes it, is missing"):
        check_demonstrations(paths.root)
    (generation_dir(paths.checkpoints, 10) / "replay/chunks.tfrecord").write_bytes(b"short")
    with pytest.raises(ConfigError, match="is damaged"):
        check_demonstrations(paths.root)
    shutil.rmtree(paths.checkpoints)
    with pytest.raises(ConfigError, match="it has no checkpoint"):
        read_demonstrations(paths.root)


def test_a_copy_that_goes_on_after_it_has_reached_its_goal_is_cut_there():
    discount = np.float32([1, 1, 0, 1, 1, 1, 0])
    parts = replay_module._between_terminations(np.array([[0, 4], [5, 6]]), discount)
    assert [(int(before), int(last)) for before, last in parts] == [(0, 2), (2, 4), (5, 6)]
