"""Checkpoints: their contents, their periods, and saves that fail."""

import random

import pytest
from checkpoint_fakes import ITEM, FakeReplay, make_checkpointer, save
from cut_disk import cut_disk
from replay_fakes import EpisodeStepEnv, all_items, codec_of, make_tiny_agent, serving
from small_disk import small_disk

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.process.background import raise_failures
from tfagents_system.core.state.disk import SPARE_BYTES
from tfagents_system.core.state.generations import (
    MANIFEST,
    checkpoint_bytes,
    generations,
    newest_intact_generation,
    read_manifests,
)
from tfagents_system.core.state.incarnation import CORE, Claims, Fence
from tfagents_system.data.item_layout import SINGLE
from tfagents_system.learning import checkpoints as checkpoints_lib
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.replay import ReplaySnapshots, experience_stats

NUM_CUTS = 3  # of the power


class FakeTime:
    """A clock that stands until it is set."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    time = monotonic


@pytest.mark.parametrize("save_secs, rest_secs", [(0.9, 0), (10, 10 * 0.95 / 0.05)])
def test_saving_takes_at_most_a_twentieth_of_the_time(
    tmp_path, replay, monkeypatch, save_secs, rest_secs
):
    clock = FakeTime()
    monkeypatch.setattr(checkpoints_lib, "time", clock)
    checkpointer = make_checkpointer(tmp_path / "checkpoints", *make_tiny_agent(), replay)
    assert checkpointer.is_affordable
    replay.may_finish.clear()
    checkpointer.save()
    clock.now += save_secs
    replay.may_finish.set()
    assert checkpointer.wait(10)
    if rest_secs:
        clock.now += 0.99 * rest_secs
        assert not checkpointer.is_affordable
        clock.now += 0.02 * rest_secs
    assert checkpointer.is_affordable


def steps(root):
    return [int(generation.name) for generation in generations(root)]


def test_two_generations_are_kept(tmp_path, replay):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    checkpointer = make_checkpointer(root, agent, train_step, replay)
    for step in (5, 10, 15, 100):
        train_step.assign(step)
        save(checkpointer)
    save(checkpointer)  # once more at the same step
    assert steps(root) == [100, 15]
    contents = {path.name for path in (root / "0000000100").iterdir()}
    assert contents == {"learner", "replay", "manifest.json"}
    assert (root / "0000000100/replay/items.tfrecord").read_text() == "checkpoint 5"


@pytest.mark.parametrize(
    ("failure", "error"), [("raises", "RuntimeError("), ("is incomplete", "FileNotFoundError(")]
)
def test_a_failed_checkpoint_of_the_replay_leaves_the_older_ones_alone(
    tmp_path, replay, capsys, failure, error
):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    checkpointer = make_checkpointer(root, agent, train_step, replay)
    for step in (1, 2):
        train_step.assign(step)
        save(checkpointer)
    replay.failure = failure
    train_step.assign(3)
    save(checkpointer)
    assert {path.name for path in root.iterdir()} == {"0000000001", "0000000002", ".reverb"}
    assert list((root / ".reverb").iterdir()) == []
    assert f"Checkpoint at train step 3 failed: {error}" in capsys.readouterr().out
    replay.failure = None
    train_step.assign(4)
    save(checkpointer)
    assert steps(root) == [4, 2]


def test_what_ends_the_thread_that_saves_ends_the_learner(tmp_path, replay, monkeypatch):
    agent, train_step = make_tiny_agent()
    checkpointer = make_checkpointer(tmp_path / "checkpoints", agent, train_step, replay)
    replay.failure = "raises"
    monkeypatch.setattr(replay, "discard", lambda: {}["of the reverb folder"])
    save(checkpointer)
    with pytest.raises(KeyError, match="of the reverb folder"):
        raise_failures()


def test_a_superseded_learner_saves_nothing_more(tmp_path, replay, capsys):
    claims = Claims(tmp_path / "incarnations")
    fence = Fence(claims, CORE, claims.claim(CORE))
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    checkpointer = make_checkpointer(root, agent, train_step, replay, fence=fence)
    save(checkpointer)
    replay.may_finish.clear()
    train_step.assign(1)
    assert checkpointer.save()
    claims.claim(CORE)  # while the server writes
    replay.may_finish.set()
    assert checkpointer.wait(10)
    assert steps(root) == [0]
    assert "Checkpoint at train step 1 failed: SupersededError(" in capsys.readouterr().out


def test_on_a_full_disk_the_older_ones_stay_and_the_next_period_tries_again(capsys):
    with small_disk(4 << 20) as disk:
        root = disk.folder / "checkpoints"
        agent, train_step = make_tiny_agent()
        checkpointer = make_checkpointer(root, agent, train_step, FakeReplay(root / ".reverb"))
        train_step.assign(1)
        save(checkpointer)
        needed = checkpoint_bytes(root)
        most = needed - SPARE_BYTES + 40_000  # with what is lost in the last blocks of the files
        spares = [*range(0, most, 4096), SPARE_BYTES, SPARE_BYTES + most]
        for train_step_now, spare_bytes in enumerate(spares, start=2):
            disk.fill(spare_bytes)
            train_step.assign(train_step_now)
            save(checkpointer)
            if not checkpointer.lacks_space:
                break
            output = capsys.readouterr().out
            assert f"Checkpoint at train step {train_step_now} failed: " in output
            assert f"\nDISK FULL: checkpoint needs {needed / 1e6:.1f} MB, " in output
            assert steps(root) == [1]
            assert {path.name for path in root.iterdir()} == {"0000000001", ".reverb"}
            assert list((root / ".reverb").iterdir()) == []
            disk.free()
        assert spare_bytes == spares[-1]
        assert steps(root) == [train_step_now, 1]
        assert checkpointer.restore()
        assert int(train_step) == train_step_now


def test_a_second_save_is_refused_while_the_first_is_being_written(tmp_path, replay):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    checkpointer = make_checkpointer(root, agent, train_step, replay)
    replay.may_finish.clear()
    assert checkpointer.save()
    train_step.assign(1)
    assert not checkpointer.save()
    assert not checkpointer.wait(timeout_secs=0.05)
    assert steps(root) == []
    replay.may_finish.set()
    assert checkpointer.wait(timeout_secs=60)
    assert steps(root) == [0]
    save(checkpointer)
    assert steps(root) == [1, 0]


def test_what_a_killed_save_left_behind_is_cleared(tmp_path, replay):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    (root / ".tmp-7" / "learner").mkdir(parents=True)
    assert not make_checkpointer(root, agent, train_step, replay).restore()
    assert list(root.iterdir()) == []


def test_a_generation_holds_the_items_and_counts_of_a_real_server(tmp_path):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    environment = EpisodeStepEnv(ends=[(7, 0.0)])
    codec = codec_of(environment)
    with serving(tmp_path / "before") as replay:
        adder = Adder(replay.client(), codec)
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 7, adder.add)
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)
        snapshots = ReplaySnapshots(replay.client(), SINGLE, root, 0)
        checkpointer = make_checkpointer(root, agent, train_step, snapshots)
        for step in (1, 2):
            train_step.assign(step)
            save(checkpointer)
    for step in (1, 2):  # the later one does not take the data of the earlier away
        restore_from = root / f"{step:010d}" / "replay"
        with serving(tmp_path / f"after_{step}", restore_from=restore_from) as replay:
            assert experience_stats(replay.client(), timeout_secs=60) == (7, 7)
            items = all_items(replay.client(), codec)
            assert [t.observation.tolist() for t in items] == [[0, step] for step in range(7)]


def test_after_a_power_cut_learner_and_replay_server_go_on_from_what_was_announced(capsys):
    moments = random.Random(27)
    with cut_disk() as disk:
        root = disk.folder / "checkpoints"
        own = root / ".reverb" / "000000"
        restore_from = None
        for cut in range(NUM_CUTS):
            agent, train_step = make_tiny_agent()
            environment = EpisodeStepEnv(ends=[(7, 0.0)])
            codec = codec_of(environment)
            with serving(own, restore_from=restore_from) as replay:
                adder = Adder(replay.client(), codec)
                run_episode(environment, RandomPolicy(environment.action_spec(), 0), 7, adder.add)
                adder.send()
                assert adder.is_confirmed(timeout_secs=60)
                snapshots = ReplaySnapshots(replay.client(), SINGLE, root, 0)
                checkpointer = make_checkpointer(root, agent, train_step, snapshots)
                assert checkpointer.restore() == (cut > 0)
                for _ in range(2):
                    train_step.assign_add(10)
                    save(checkpointer)
                announced = int(train_step)
                assert checkpointer.record.train_step == announced
                train_step.assign_add(10)
                assert checkpointer.save()
                checkpointer.wait(timeout_secs=moments.uniform(0, 0.2))
                disk.cut()
                assert checkpointer.wait(timeout_secs=60)
            disk.power_on()
            newest = newest_intact_generation(root)
            assert int(newest.name) in (announced, announced + 10)
            restore_from = newest / "replay"
        with serving(own, restore_from=restore_from) as replay:
            assert experience_stats(replay.client(), timeout_secs=60)[0] == 7 * NUM_CUTS


def test_what_sorts_later_in_reverbs_own_folder_does_not_cost_the_checkpoint(tmp_path, monkeypatch):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    own = root / ".reverb" / "000002"
    with serving(own) as replay:
        checkpointer = make_checkpointer(
            root, agent, train_step, ReplaySnapshots(replay.client(), SINGLE, root, 2)
        )
        # Reverb names its checkpoints by the local time: the second sorts before the first.
        for step, zone in enumerate(("UTC", "Pacific/Kiritimati", "Etc/GMT+12"), start=1):
            monkeypatch.setenv("TZ", zone)
            later = own / "9999-12-31T23:59:59+00:00"
            later.mkdir()
            (later / "DONE").touch()
            (own / "9999-notes.txt").touch()
            train_step.assign(step)
            save(checkpointer)
            assert steps(root)[0] == step
            assert newest_intact_generation(root) == root / f"{step:010d}"
            assert list(own.iterdir()) == []


def test_the_manifest_says_what_the_replay_folder_holds(tmp_path, replay):
    agent, train_step = make_tiny_agent()
    save(make_checkpointer(tmp_path / "checkpoints", agent, train_step, replay))
    (manifest,) = read_manifests(tmp_path / "checkpoints")
    assert manifest["stored"] == "replay"


def test_the_manifest_says_what_it_depends_on_as_data(tmp_path, replay):
    agent, train_step = make_tiny_agent()
    save(make_checkpointer(tmp_path / "checkpoints", agent, train_step, replay))
    (manifest,) = read_manifests(tmp_path / "checkpoints")
    variables = manifest["requires"].pop("variables")
    expected = {"agent": "sac", "item": ITEM, "arithmetic": "float32"}
    assert manifest["requires"] == expected
    assert [2, 4] in variables.values()  # kernel of the actor: 2 numbers observed, 4 units


def test_a_damaged_manifest_is_left_out_even_if_it_can_be_parsed(tmp_path, replay):
    agent, train_step = make_tiny_agent()
    root = tmp_path / "checkpoints"
    save(make_checkpointer(root, agent, train_step, replay))
    path = root / "0000000000" / MANIFEST
    path.write_text(path.read_text().replace('"saved_at"', '"saved_bt"'))
    assert read_manifests(root) == []
    path.write_text('{"items": [], "saved_at": 0}')
    assert read_manifests(root) == []
