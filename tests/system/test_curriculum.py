"""What the environments of a real run are given by the curriculum, across a restart."""

import csv
import itertools
import json
import os
import re
import signal
import time

import pytest
from system.tiny_run import HORIZON, STEPS_PER_ITER, TinyRun

from tfagents_system.core.settings.curriculum import Curriculum

pytestmark = pytest.mark.system

CURRICULUM = {
    "mass": {"iters": [2, 6, 20, 25], "range": [1.0, 2.5]},
    "level": {"iters": [0, 15], "range": [2, 7]},
}
# A worker sends its steps in bursts of up to a second, and what both hold back while the learner
# starts comes at once. An iteration of 100 env steps keeps each phase several times as long.
MORE_PARAMS = """
    num_iter = 30
    n_train_episodes_per_iter = 10
"""
VALUES = {"mass": [1.0, 1.5, 2.0, 2.5], "level": [2, 7]}


def num_values_at(name, iteration):
    return sum(first <= iteration for first in CURRICULUM[name]["iters"])


def test_every_worker_gets_the_values_of_the_json_in_order_also_after_a_restart(tmp_path):
    run = TinyRun(tmp_path, MORE_PARAMS, curriculum=CURRICULUM)
    try:
        run.set_pace(0.01)
        process = run.start(num_workers=2)
        run.await_train_step(10 * STEPS_PER_ITER)
        os.kill(process.pid, signal.SIGTERM)
        assert run.await_end(process, timeout_secs=60) == 143
        process = run.start(num_workers=2)
        assert run.await_end(process, timeout_secs=90) == 0
        check(run)
    finally:
        run.end()


def check(run):
    tape = run.set_states()
    (restored_step,) = run.restored_steps()
    restored = restored_step // STEPS_PER_ITER
    assert 10 <= restored < 20
    returns = set()
    for worker in (0, 1):
        rows = run.episodes("collect", worker)
        # The last of these episodes began after the one before it had ended.
        *_, began_after, _ = (row["iteration"] for row in rows if row["iteration"] < restored)
        lines = [line for line in tape if line["worker"] == worker]
        before, after = dict.fromkeys(line["pid"] for line in lines)
        for name, values in VALUES.items():
            given = {
                pid: [line["state"][name] for line in lines if line["pid"] == pid
                      and name in line["state"]] for pid in (before, after)
            }  # fmt: skip
            assert given[before] == values[: len(given[before])]
            assert len(given[before]) >= num_values_at(name, began_after)
            # The value in force at once, then the others.
            assert given[after] == values[num_values_at(name, restored) - 1 :]
            assert {type(value) for value in given[after]} == {type(values[0])}
        check_iterations(rows)
        returns.update(row["return"] / HORIZON for row in rows)
    # Of both workers, because on a busy machine one may miss what is in force for a few seconds.
    assert returns == {200.0, 201.0, 201.5, 701.5, 702.0, 702.5}


def check_iterations(rows):
    """The reward, 100 level + mass, shows what was in force; an episode has one value."""
    curriculum = Curriculum.from_config(CURRICULUM, "test")
    for previous, row in itertools.pairwise(rows):
        began_in = range(int(previous["iteration"]), int(row["iteration"]) + 1)
        states = [curriculum.state_at(iteration) for iteration in began_in]
        allowed = {100 * s["level"] + s.get("mass", 0.0) for s in states}
        assert row["return"] / HORIZON in allowed, (previous, row)


# A worker goes on with what it has if the server has not answered within half a second, which a
# killed one or a busy machine may not.
MOST_DELAY_SECS = 5.0
LESSONS = {
    "level": {
        "lessons": [
            {"value": 1, "until": {"measure": "reward", "threshold": 900, "min_lesson_length": 3}},
            {"value": 2, "until": {"measure": "reward", "threshold": 1900,
                                   "min_lesson_length": 20, "signal_smoothing": False}},
            {"value": 3, "until": {"measure": "progress", "threshold": 0.6}},
            {"value": 4, "name": "last"},
        ]
    },
    "mass": {"sampler": "multi_range", "intervals": [[0.0, 1.0], [5.0, 6.0]]},
}  # fmt: skip


def test_lessons_go_on_after_a_kill_of_each_program_and_all_workers_have_the_same(tmp_path):
    run = TinyRun(tmp_path, MORE_PARAMS, curriculum=LESSONS)

    def lesson():
        path = run.paths.lessons
        return json.loads(path.read_text())["lessons"]["level"] if path.exists() else 0

    try:
        run.set_pace(0.01)
        process = run.start(num_workers=2)
        run.wait_for(lambda: lesson() >= 1, 120, "the second lesson")
        run.kill("sac_collect.py 1")
        run.wait_for(lambda: lesson() >= 2, 120, "the third lesson")
        run.kill("sac_train.py")
        assert lesson() >= 2
        killed_at = time.time()
        run.wait_for(
            lambda: any(row["wall_time"] > killed_at for row in run.episodes("collect", 1)), 60,
            "an episode after that",
        )  # fmt: skip
        run.kill("sac_replay_buffer.py")
        run.wait_for(lambda: lesson() == 3, 180, "the last lesson")
        shown = run.status("learner")["lessons"]
        assert shown in ("level 3 of 4", "level 4 of 4 (last)")  # the status is a second old
        assert run.await_end(process, timeout_secs=120) == 0
        check_lessons(run)
        # A line each ten seconds: not of each lesson.
        assert re.search(r"\| lesson level \d of 4", run.output)
    finally:
        run.end()


def check_lessons(run):
    assert run.status("learner")["lessons"] == "level 4 of 4 (last)"
    rows = {worker: lesson_rows_of(run, worker) for worker in (0, 1)}
    begun = {}  # the first sign of each lesson
    for worker, of_worker in rows.items():
        lessons = [int(row["lessons"]) for row in of_worker]
        assert lessons == sorted(lessons), worker
        for row in of_worker:
            lesson, time_of_row = int(row["lessons"]), float(row["wall_time"])
            begun[lesson] = min(begun.get(lesson, time_of_row), time_of_row)
            # Each step rewards 100 level + mass, and a lesson's level is its number from 1.
            mass = float(row["return"]) / HORIZON - 100 * (lesson + 1)
            assert 0 < mass < 1 or 5 < mass < 6
    assert set(begun) == {0, 1, 2, 3}
    for worker, of_worker in rows.items():
        assert int(of_worker[-1]["lessons"]) == 3, worker
        for lesson, begun_at in begun.items():
            late = begun_at + MOST_DELAY_SECS
            later = [int(row["lessons"]) for row in of_worker if float(row["wall_time"]) > late]
            assert all(other >= lesson for other in later), (worker, lesson)
    masses = [round(float(row["return"]), 4) for of_worker in rows.values() for row in of_worker]
    assert len(set(masses)) > 0.95 * len(masses)  # drawn anew by each worker for each episode


def lesson_rows_of(run, worker):
    with (run.paths.episodes / f"lessons_{worker}.csv").open(newline="") as file:
        return list(csv.DictReader(file))
