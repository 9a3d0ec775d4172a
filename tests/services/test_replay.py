import math
import pathlib

import hypothesis
import numpy as np
import pytest
import tree
from fakes import UNRIVALLED
from hypothesis import strategies as st
from replay_fakes import EpisodeStepEnv, all_items, codec_of, serving

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.core.state.generations import publish_generation
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.experience import ExperienceBatches
from tfagents_system.services.journal import Checkpoints, Journal, Stream
from tfagents_system.services.replay import (
    EXPERIENCE_TABLE,
    ReplaySnapshots,
    experience_stats,
)
from tfagents_system.services.replay_files import (
    NOTHING,
    empty_reverb_root,
    first_number,
    stored_numbers,
)
from tfagents_system.services.replay_limits import NO_RATIO, ReplayLimits


def limits_of(horizon, **values):
    settings = TrainingSettings(**values)
    return ReplayLimits.from_settings(settings, horizon, ItemLayout.from_settings(settings))


def fill(replay, num_steps, layout=SINGLE):
    environment = EpisodeStepEnv(ends=[(1000, 0.0)])
    adder = Adder(replay.client(), codec_of(environment), layout)
    run_episode(environment, RandomPolicy(environment.action_spec(), 0), num_steps, adder.add)
    adder.send()
    assert adder.is_confirmed(timeout_secs=60)
    return codec_of(environment)


def test_limits_of_transitions():
    limits = limits_of(horizon=200, num_steps_per_iter=100, n_train_episodes_per_iter=2)
    assert limits == ReplayLimits(
        capacity=math.ceil(350 * 201 / 8),  # blocks; an episode of 200 transitions is 201 rows
        min_size=math.ceil(30 * 201 / 8),
        samples_per_insert=64 * 100 / (2 * 201),
        error_buffer=64 * 100 / 8,  # one iteration
    )


def test_blocks_that_do_not_come_out_even_are_rounded_up():
    limits = limits_of(horizon=203, n_buffer_init_episodes=3, n_episodes_in_buffer=5)
    assert (limits.min_size, limits.capacity) == (77, 128)  # 3 x 204 / 8 = 76.5, 1020 / 8 = 127.5


def test_limits_without_a_pool_count_all_items_of_each_train_step():
    limits = limits_of(horizon=200, num_steps_per_iter=100, fresh_samples_per_step=None)
    assert limits.samples_per_insert == 256 * 100 / 200
    assert limits.error_buffer == 256 * 100
    assert limits_of(horizon=200, num_steps_per_iter=100, fresh_samples_per_step=1000) == limits


def test_copies_with_other_goals_change_no_train_steps_per_env_step():
    values = dict(horizon=10, num_steps_per_iter=100, her_copies=4, her_strategy="final")
    limits = limits_of(**values)
    rows = 11 + 4 * 11  # of an episode of 10 transitions, and of its copies
    assert limits.samples_per_insert == 64 * 100 / rows
    assert limits.capacity == math.ceil(350 * rows / 8)
    assert limits.min_size == math.ceil(30 * rows / 8)
    changing = limits_of(**values | {"her_strategy": "future"})
    goals = sum(1 / left for left in range(1, 11))  # in a copy, on average
    rows = 11 + 4 * (10 + goals)
    assert changing.samples_per_insert == pytest.approx(64 * 100 / rows)


def test_limits_of_sequences():
    limits = limits_of(horizon=50, recurrent=True, recurrent_sequence_length=20)
    sequences = 50  # of a full episode
    assert limits.capacity == 350 * sequences
    assert limits.min_size == 30 * sequences
    assert limits.samples_per_insert == 64 * 50 / sequences


def test_the_error_buffer_holds_the_batches_in_flight_and_no_more_than_the_fill_gives():
    few_steps = dict(num_steps_per_iter=1, prefetch_batches=3, n_buffer_init_episodes=100)
    assert limits_of(horizon=200, **few_steps).error_buffer == (3 * 256 + 2 * 64) / 8
    short_fill = dict(num_steps_per_iter=100, n_buffer_init_episodes=1)
    assert limits_of(horizon=200, n_train_episodes_per_iter=2, **short_fill).error_buffer == (
        64 * 100 / 402 * math.ceil(201 / 8)
    )


def test_an_automatic_ratio_is_at_most_the_largest_and_only_the_learner_waits():
    settings = dict(horizon=200, num_steps_per_iter=100, max_update_ratio=4)
    limits = limits_of(update_ratio="auto", **settings)
    assert limits.samples_per_insert == pytest.approx(64 * 4 * 200 / 201)
    low, high = limits.range_of_difference
    middle = limits.samples_per_insert * math.ceil(30 * 201 / 8)
    assert low == pytest.approx(middle - 64 * 100 / 8)
    assert high == NO_RATIO
    fixed = limits_of(**settings)
    assert sum(fixed.range_of_difference) / 2 == fixed.samples_per_insert * fixed.min_size
    assert limits_of(update_ratio="auto", n_train_episodes_per_iter=7, **settings) == limits


def test_workers_never_wait_for_a_learner_with_an_automatic_ratio(tmp_path):
    values = dict(capacity=1000, min_size=2, samples_per_insert=1.0, error_buffer=2.0)
    with serving(tmp_path / "auto", ReplayLimits(**values, workers_wait=False)) as replay:
        codec = fill(replay, num_steps=300)
        dataset = ExperienceBatches(replay.address, SampleReader(codec, SINGLE), batch_size=2,
                                     num_in_flight=2, timeout_secs=2.0)  # fmt: skip
        num_samples = sum(len(batch.data[0]) for batch in dataset)
        assert num_samples == 300  # the ratio; from the low end of the range on
        checkpoint = pathlib.Path(replay.client().checkpoint())
    with serving(tmp_path / "fixed", ReplayLimits(**values), restore_from=checkpoint) as replay:
        info = replay.client().server_info(timeout=5)[EXPERIENCE_TABLE].rate_limiter_info
        assert (info.min_diff, info.max_diff) == (2 - 2.0, 2 + 2.0)


def test_too_short_a_fill_is_an_error_with_the_arithmetic():
    # 8 samples per iteration / (2 x 5 inserts) = 0.8; 5 x 0.8 < 3 x 8 + 2 x 8 = 40; 10 x 4 = 40.
    values = dict(train_batch_size=8, num_steps_per_iter=1, n_train_episodes_per_iter=2)
    with pytest.raises(ConfigError) as caught:
        limits_of(horizon=5, n_buffer_init_episodes=1, **values)
    assert str(caught.value) == (
        "n_buffer_init_episodes = 1 is too small: 5 steps x 0.8 samples per insert is less than "
        "the 40 samples that the learner keeps in flight (prefetch_batches x train_batch_size "
        "+ 2 x the smaller of train_batch_size and fresh_samples_per_step). Use at least 10."
    )
    limits_of(horizon=5, n_buffer_init_episodes=10, **values)


@hypothesis.given(
    horizon=st.integers(1, 300),
    values=st.fixed_dictionaries({
        "train_batch_size": st.integers(1, 300),
        "fresh_samples_per_step": st.none() | st.integers(1, 300),
        "num_steps_per_iter": st.integers(1, 300),
        "n_train_episodes_per_iter": st.integers(1, 300),
        "n_buffer_init_episodes": st.integers(1, 50),
        "prefetch_batches": st.integers(1, 9),
    }),
)  # fmt: skip
@hypothesis.settings(max_examples=300)
def test_reverb_takes_any_limits_and_the_advice_of_the_error_is_the_smallest_that_works(
    horizon, values
):
    try:
        limits = limits_of(horizon, **values)
    except ConfigError as error:
        advised = int(str(error).rpartition("Use at least ")[2].rstrip("."))
        limits = limits_of(horizon, **values | {"n_buffer_init_episodes": advised})
        with pytest.raises(ConfigError):
            limits_of(horizon, **values | {"n_buffer_init_episodes": advised - 1})
    limits.rate_limiter()
    batch_size = values["train_batch_size"]
    num_fresh = min(values["fresh_samples_per_step"] or batch_size, batch_size)
    has_pool = num_fresh < batch_size
    in_flight = values["prefetch_batches"] * batch_size + 2 * num_fresh
    assert limits.error_buffer >= in_flight / math.gcd(num_fresh, 8) ** has_pool * (1 - 1e-9)


def test_the_oldest_items_leave_a_full_table(tmp_path):
    limits = ReplayLimits(capacity=5, min_size=1, samples_per_insert=1.0, error_buffer=1e9)
    with serving(tmp_path / "reverb", limits) as replay:
        codec = fill(replay, num_steps=12)
        assert experience_stats(replay.client(), timeout_secs=60) == (5, 12)
        items = all_items(replay.client(), codec)
    assert [t.observation[1] for t in items] == [7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    "layout, num_steps, batch_shape",  # 14 items in each case
    [
        (SINGLE, 14, (4, 2)),
        (ItemLayout(2), 28, (4 // 2, 3)),
        (ItemLayout(3, is_sequence=True), 16, (4, 4)),
    ],
)
def test_dataset_gives_packed_batches_and_ends_when_starved(
    tmp_path, layout, num_steps, batch_shape
):
    # samples <= inserts x 1 - (min_size x 1 - error_buffer): as many samples as inserts
    limits = ReplayLimits(capacity=100, min_size=10, samples_per_insert=1.0, error_buffer=10.0)
    with serving(tmp_path / "reverb", limits) as replay:
        codec = fill(replay, num_steps, layout)
        dataset = ExperienceBatches(
            replay.address, SampleReader(codec, layout), batch_size=4, num_in_flight=4,
            timeout_secs=2.0,
        )  # fmt: skip
        iterator = iter(dataset)
        spec = iterator.element_spec
        batches = list(iterator)  # ends by itself, what is left of 14 samples is kept
        assert len(batches) == 14 // batch_shape[0]
        assert spec.data[0].shape == [*batch_shape, codec.columns[0].shape[0]]
        for batch in batches:
            observation = codec.unpack(batch.data).observation
            assert observation.shape == [*batch_shape, 2]
            np.testing.assert_array_equal(observation[:, 1:], observation[:, :-1] + [0.0, 1.0])
        fill(replay, num_steps, layout)
        of_both = 2 * 14 // batch_shape[0]
        assert len(list(dataset)) == of_both - len(batches)  # a new iterator goes on


def test_no_sample_is_lost_where_each_wait_for_data_ends_with_less_than_a_batch(tmp_path):
    limits = ReplayLimits(capacity=100, min_size=3, samples_per_insert=1.0, error_buffer=3.0)
    with serving(tmp_path / "reverb", limits) as replay:
        reader = SampleReader(codec_of(EpisodeStepEnv()), SINGLE)
        batches = ExperienceBatches(replay.address, reader, batch_size=8, num_in_flight=8,
                                    timeout_secs=0.5)  # fmt: skip
        sizes = []
        for _ in range(6):  # a simulator that is slower than the timeout
            codec = fill(replay, num_steps=3)
            for batch in batches:
                sizes.append(len(batch.data[0]))
                assert len(set(batch.info.key.numpy())) > 1
                assert np.isfinite(codec.unpack(batch.data).observation).all()
        assert sizes == [8] * (6 * 3 // 8)


def test_a_restored_server_has_the_items_and_counts_of_the_checkpoint(tmp_path):
    with serving(tmp_path / "before") as replay:
        codec = fill(replay, num_steps=20)
        items = all_items(replay.client(), codec)
        checkpoint = pathlib.Path(replay.client().checkpoint())
    for attempt in ("after", "once more"):  # restoring changes nothing in the checkpoint
        with serving(tmp_path / attempt, restore_from=checkpoint) as replay:
            assert experience_stats(replay.client(), timeout_secs=60) == (20, 20)
            restored = all_items(replay.client(), codec)
            for one, other in zip(restored, items, strict=True):
                tree.map_structure(np.testing.assert_array_equal, one, other)
            fill(replay, num_steps=3)
            assert experience_stats(replay.client(), timeout_secs=60) == (23, 23)


def test_stats_of_a_server_that_is_away_time_out(tmp_path):
    with serving(tmp_path / "reverb") as replay:
        client = replay.client()
        assert experience_stats(client, timeout_secs=60) == (0, 0)
    with pytest.raises(TimeoutError, match="no answer from the replay server"):
        experience_stats(client, timeout_secs=1)


def test_a_checkpoint_made_with_other_limits_takes_over_the_new_ones(tmp_path, capsys):
    limits = ReplayLimits(capacity=100, min_size=2, samples_per_insert=8.0, error_buffer=100.0)
    with serving(tmp_path / "before", limits) as replay:
        codec = fill(replay, num_steps=8)
        checkpoint = pathlib.Path(replay.client().checkpoint())
    with serving(tmp_path / "same", limits, restore_from=checkpoint) as replay:
        assert experience_stats(replay.client(), timeout_secs=60) == (8, 8)
    assert "have changed" not in capsys.readouterr().out
    changed = ReplayLimits(capacity=6, min_size=3, samples_per_insert=2.0, error_buffer=4.0)
    with serving(tmp_path / "changed", changed, restore_from=checkpoint) as replay:
        assert experience_stats(replay.client(), timeout_secs=60) == (6, 8)
        info = replay.client().server_info(timeout=5)[EXPERIENCE_TABLE]
        limiter = info.rate_limiter_info
        assert info.max_size == 6
        assert (limiter.min_size_to_sample, limiter.samples_per_insert) == (3, 2.0)
        assert (limiter.min_diff, limiter.max_diff) == (3 * 2.0 - 4.0, 3 * 2.0 + 4.0)
        # 8 inserts x 2 - 3 x 2 = 10 samples count as taken: 4 / 2 items may be inserted at once.
        fill(replay, num_steps=2)
        dataset = ExperienceBatches(replay.address, SampleReader(codec, SINGLE), batch_size=2,
                                     num_in_flight=2, timeout_secs=2.0)  # fmt: skip
        samples = [row[0] for batch in dataset for row in codec.unpack(batch.data).observation]
        assert len(samples) == 2 * 4.0  # from one end of the error buffer to the other
        assert {int(step) for _, step in samples} <= {4, 5, 6, 7, 0, 1}  # the oldest have left
    assert (
        "The limits of the replay buffer, in items, have changed: "
        "capacity 100 in the checkpoint, 6 now; min_size 2 in the checkpoint, 3 now; "
        "samples_per_insert 8 in the checkpoint, 2 now; "
        "error_buffer 100 in the checkpoint, 4 now.\n"
    ) in capsys.readouterr().out


def test_what_arrives_after_another_worker_has_sent_it_is_saved_once(tmp_path, capsys):
    """A worker taken for gone lives, and what it had not sent yet arrives."""
    environment = EpisodeStepEnv(ends=[(1000, 0.0)])
    codec, layout, root = codec_of(environment), ItemLayout(4), tmp_path / "root"
    snapshots_root = empty_reverb_root(root, 1)
    with serving(snapshots_root) as replay:

        def make_adder(stream):
            journal = Journal(tmp_path / "journals", Stream(*stream), codec.columns, layout.rows,
                              10**6, UNRIVALLED)  # fmt: skip
            return Adder(replay.client(), codec, layout, journal)

        living = make_adder((5, 1))
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 40, living.add)
        living.send()
        assert living.is_confirmed(timeout_secs=60)
        gone = Checkpoints(NOTHING, NOTHING, {Stream(5, 1)})
        heir, num_items = make_adder((5, 2)), 40 // 4
        for _ in heir.send_lost(gone):
            assert heir.is_confirmed(timeout_secs=60)
        assert experience_stats(replay.client(), timeout_secs=60)[0] == 2 * num_items

        snapshots = ReplaySnapshots(replay.client(), layout, root, incarnation=1)
        stored = stored_numbers(snapshots.describe(snapshots.checkpoint()))
        rows = first_number(1) + np.arange(num_items * layout.row_stride)
        assert stored.contains(rows).all() and stored.last(2) == 0
        assert len(all_items(replay.client(), codec, layout)) == num_items
        assert f"{num_items} items have arrived twice" in capsys.readouterr().out
        assert pathlib.Path(snapshots.checkpoint()).is_dir()
        assert "twice" not in capsys.readouterr().out


def test_what_a_full_table_has_removed_of_a_gone_worker_is_not_sent_again(tmp_path):
    """It has the later stream, so that its numbers alone do not tell that it is older."""
    environment = EpisodeStepEnv(ends=[(10**6, 0.0)])
    codec, root, num_rows = codec_of(environment), tmp_path / "root", 1000
    limits = ReplayLimits(num_rows, min_size=1, samples_per_insert=1.0, error_buffer=1e9)
    snapshots_root = empty_reverb_root(root, 1)
    with serving(snapshots_root, limits) as replay:
        heir, gone = (
            Adder(replay.client(), codec, journal=Journal(
                tmp_path / "journals", stream, codec.columns, 1, 10**7, UNRIVALLED
            ))
            for stream in (Stream(0, 1), Stream(1, 2))
        )  # fmt: skip
        snapshots = ReplaySnapshots(replay.client(), SINGLE, root, incarnation=1)

        def collect(adder, num_steps):
            policy = RandomPolicy(environment.action_spec(), 0)
            run_episode(environment, policy, num_steps, adder.add)
            adder.end_episode()
            adder.send()
            assert adder.is_confirmed(timeout_secs=60)

        def save(train_step):
            unfinished = root / ".tmp-1"
            facts = {"stored": snapshots.describe(snapshots.checkpoint())}
            unfinished.mkdir()
            publish_generation(unfinished, root, train_step, facts, UNRIVALLED)
            return stored_numbers(facts["stored"])

        collect(heir, 10)
        collect(gone, num_rows)
        save(1)
        collect(heir, num_rows // 2)
        older = save(2)
        collect(heir, num_rows // 2)
        newest = save(3)
        assert older.last(2) and not newest.last(2)
        assert list(heir.send_lost(Checkpoints(newest, older, {Stream(1, 2)}))) == []
        assert heir.num_recovered == 0


def test_items_without_a_number_are_removed_and_the_rest_is_saved(tmp_path, capsys):
    environment = EpisodeStepEnv(ends=[(1000, 0.0)])
    codec, root = codec_of(environment), tmp_path / "root"
    with serving(empty_reverb_root(root, 1)) as replay:
        client = replay.client()
        journal = Journal(tmp_path / "j", Stream(0, 1), codec.columns, 1, 10**6, UNRIVALLED)
        adder = Adder(client, codec, journal=journal)
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 9, adder.add)
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)
        priorities = [1e300, 1.5, 2.0**60]
        with client.trajectory_writer(num_keep_alive_refs=2) as writer:
            columns = [np.zeros(spec.shape, spec.dtype.as_numpy_dtype) for spec in codec.columns]
            writer.append(columns)
            writer.append(columns)
            for priority in priorities:
                writer.create_item(EXPERIENCE_TABLE, priority, [c[-2:] for c in writer.history])
            writer.flush()
        snapshots = ReplaySnapshots(client, SINGLE, root, incarnation=1)
        stored = stored_numbers(snapshots.describe(snapshots.checkpoint()))
        assert stored.ranges.tolist() == [[first_number(1) + 1, first_number(1) + 9]]
        assert experience_stats(client, timeout_secs=60)[0] == 9
        assert snapshots.num_removed == len(priorities)
    assert "3 items have a priority that is not the number" in capsys.readouterr().out


@pytest.mark.parametrize(
    "layout",
    [ItemLayout(4), ItemLayout(4, n_step=3), ItemLayout(3, is_sequence=True), SINGLE],
    ids=str,
)
def test_a_discarded_item_goes_with_all_that_share_rows_with_it_for_good(tmp_path, layout):
    environment = EpisodeStepEnv(ends=[(10**6, 0.0)])
    codec, root = codec_of(environment), tmp_path / "root"
    with serving(empty_reverb_root(root, 1)) as replay:
        client = replay.client()
        journal = Journal(
            tmp_path / "journals", Stream(0, 1), codec.columns, layout.rows, 10**7, UNRIVALLED
        )
        adder = Adder(client, codec, layout, journal)
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 30, adder.add)
        adder.end_episode()
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)

        def steps():
            """The env steps whose observations each item holds, by its key as it is sampled."""
            found, (size, _) = {}, experience_stats(client, timeout_secs=60)
            for _ in range(20 * size + 200):
                if len(found) == size:
                    return found
                (sample,) = client.sample(EXPERIENCE_TABLE, 1, emit_timesteps=False)
                key = sample.info.key
                found[key - 2**64 if key >= 2**63 else key] = frozenset(
                    codec.unpack(sample.data).observation[:, 1].tolist()
                )
            raise AssertionError(f"sampled only {len(found)} of {size} items")

        before = steps()
        bad = sorted(before, key=lambda key: min(before[key]))[len(before) // 2]
        sharing = {key for key, held in before.items() if held & before[bad]}
        assert 1 < len(sharing) < len(before)

        snapshots = ReplaySnapshots(client, layout, root, incarnation=1)
        assert snapshots.discard_items([bad]) == len(sharing)
        assert steps().keys() == before.keys() - sharing
        stored = stored_numbers(snapshots.describe(snapshots.checkpoint()))
        assert len(stored.discarded) == len(sharing)
        assert list(adder.send_lost(Checkpoints(stored, NOTHING, set()))) == []
        later = ReplaySnapshots(client, layout, root, incarnation=2)
        assert later.num_removed == len(sharing)
