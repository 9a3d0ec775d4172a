import json

import pytest

from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.launch.status import Snapshot, format_duration, status_line, take_snapshot

NOW = 1_000_000.0
DISK = {"free_bytes": 10**9, "checkpoint_bytes": 3_100_000}
LEARNER = {
    "time": NOW, "phase": "training", "train_step": 6_000, "total_train_steps": 50_000,
    "iteration": 120, "num_iter": 1_000, "train_steps_per_sec": 200.0,
}  # fmt: skip
REPLAY = {"time": NOW, "transitions": 3_400, "capacity": 70_000, "fill_target": 6_000}


def worker(**changes):
    report = {
        "time": NOW, "phase": "collecting", "env_steps": 12_000, "env_steps_per_sec": 150.0,
        "last_return": -800.0, "eval": None, "curriculum": {},
    }  # fmt: skip
    return report | changes


def test_status_line_while_training():
    reports = {
        "replay": REPLAY,
        "learner": LEARNER,
        "worker_0": worker(eval={"iteration": 100, "returns": [-100.0, -300.0]}),
        "worker_1": worker(last_return=None, eval={"iteration": 100, "returns": [-200.0]}),
        "worker_2": worker(last_return=-700.0, eval={"iteration": 50, "returns": [-1600.0]}),
    }
    assert status_line(Snapshot(reports, num_restarts=2, **DISK), NOW + 1) == (
        "iteration 120 of 1,000 (12%) | train steps 6,000, 200/s | env steps 36,000, 450/s | "
        "return -750.0 | eval -200.0 (iteration 100) | 3 min 40 s left | restarts 2"
    )


def test_status_line_during_the_random_fill_shows_its_progress():
    learner = LEARNER | {"phase": "waiting for data", "train_step": 0}
    reports = {"replay": REPLAY, "learner": learner, "worker_0": worker(phase="random fill")}
    assert status_line(Snapshot(reports, 0, **DISK), NOW) == (
        "filling the replay buffer 3,400 of 6,000 (57%) | env steps 12,000, 150/s | return -800.0"
    )


def test_status_line_before_the_learner_has_reported_names_who_is_starting():
    reports = {"replay": REPLAY, "learner": {}, "worker_0": worker(phase="starting")}
    assert status_line(Snapshot(reports, 0, **DISK), NOW) == "starting learner, worker_0"


def test_status_line_counts_troubles_and_names_parked_workers():
    reports = {
        "learner": LEARNER,
        "worker_0": worker(env_failures=2, rejected_steps=0, items_sent_again=1_200),
        "worker_1": worker(phase="parked", env_failures=5, unprotected_steps=48),
    }
    line = status_line(Snapshot(reports, num_restarts=1, **DISK), NOW)
    assert line.startswith("PARKED: worker_1 | iteration 120 of")
    assert line.endswith(
        " left | env failures 7 | sent again 1,200 | not in a journal 48 | restarts 1"
    )


def test_status_line_says_that_a_time_limit_looks_like_a_termination():
    reports = {"learner": LEARNER, "worker_0": worker(suspicion=None),
               "worker_1": worker(suspicion="10 episodes ended")}  # fmt: skip
    line = status_line(Snapshot(reports, num_restarts=0, **DISK), NOW)
    assert line.startswith(
        "TIME LIMIT TAKEN FOR A TERMINATION? See stdout/worker_1.log | iteration 120 of"
    )


@pytest.mark.parametrize(
    ("free", "warning"),
    [
        (0, "DISK FULL: checkpoint needs 3.1 MB, 0 B free"),
        (2_999_999, "DISK FULL: checkpoint needs 3.1 MB, 3.0 MB free"),
        (3_100_000, "iteration 120 of 1,000 (12%)"),
    ],
)
def test_status_line_begins_with_a_disk_that_has_no_room_for_a_checkpoint(free, warning):
    line = status_line(Snapshot({"learner": LEARNER}, 0, free, 3_100_000), NOW)
    assert line.split(" | ")[0] == warning


def test_status_line_names_programs_that_do_not_respond():
    reports = {
        "learner": LEARNER | {"phase": "saving", "time": NOW - 75},
        "worker_0": worker(phase="finished", time=NOW - 500),
        "worker_1": worker(time=NOW - 29),
    }
    line = status_line(Snapshot(reports, 0, **DISK), NOW)
    assert line.startswith("NOT RESPONDING: learner (1 min 15 s) | saving | iteration 120 of")
    assert "worker" not in line


@pytest.mark.parametrize("jump_secs", [-3600, 86_400])
def test_a_clock_that_is_set_neither_hides_a_silent_program_nor_marks_others_for_long(jump_secs):
    now = NOW + jump_secs
    reports = {"learner": LEARNER, "worker_0": worker(time=now + 1)}  # one has reported since
    line = status_line(Snapshot(reports, 0, **DISK), now + 2)
    assert line.startswith("NOT RESPONDING: learner (")
    assert "worker_0" not in line
    line = status_line(Snapshot({"learner": LEARNER | {"time": now}}, 0, **DISK), now + 2)
    assert "NOT RESPONDING" not in line


@pytest.mark.parametrize(
    ("secs", "text"),
    [(0.2, "0 s"), (45, "45 s"), (60, "1 min"), (200.4, "3 min 20 s"), (18_600, "5 h 10 min"),
     (3_600, "1 h"), (187_200, "2 d 4 h")],
)  # fmt: skip
def test_format_duration_shows_the_two_largest_units(secs, text):
    assert format_duration(secs) == text


def test_take_snapshot_survives_missing_and_damaged_files(tmp_path):
    paths = ExperimentPaths(tmp_path)
    for name in ("replay", "learner", "worker_0", "worker_1"):
        (paths.services / name).mkdir(parents=True)
    paths.status("x").parent.mkdir()
    paths.status("replay").write_text('{"time": 1, "ite')
    paths.status("learner").write_text("[]")
    paths.status("worker_0").write_text(json.dumps(worker()))
    (paths.services / "learner" / "starts").write_text("1.0 0\n2.0 1\n3.0 2\n")
    (paths.services / "worker_0" / "starts").write_text("1.0 0\n")
    snapshot = take_snapshot(paths)
    assert snapshot.num_restarts == 2
    assert snapshot.reports == {"replay": {}, "learner": {}, "worker_0": worker(), "worker_1": {}}
    assert status_line(snapshot, NOW) == ("starting learner, replay, worker_1 | restarts 2")


def test_take_snapshot_before_anything_exists(tmp_path):
    assert status_line(take_snapshot(ExperimentPaths(tmp_path / "none")), NOW) == "starting"
