import dataclasses

import pytest
from report_fakes import learner_report, mirror_report, replay_report, worker_report

from tfagents_system.core.meters import format_duration
from tfagents_system.core.state.reports import Evaluation, Phase
from tfagents_system.launch.show.status_line import Snapshot, facts, status_line

TRAINING = "iteration 120 of 1,000 (12%) | train steps 6,000, 200/s in int16"


def snapshot_of(*reports, missing=(), **changes):
    """A run of these programs."""
    by_program = dict.fromkeys(missing) | {report.program: report for report in reports}
    disk = {"free_bytes": 10**9, "checkpoint_bytes": 3_100_000}
    return Snapshot(reports=by_program, **(disk | changes))


def line_of(*reports, **changes):
    """The line of a run of these programs."""
    return status_line(snapshot_of(*reports, **changes))


def line_at(columns, *reports, **changes):
    """The line in a terminal, whose last column stays free."""
    line = status_line(snapshot_of(*reports, **changes), columns - 1)
    assert len(line) <= columns - 1
    return line


def test_status_line_while_training():
    assert line_of(
        replay_report(),
        learner_report(),
        worker_report(0, eval=Evaluation(100, [-100.0, -300.0])),
        worker_report(1, last_return=None, eval=Evaluation(100, [-200.0])),
        worker_report(2, last_return=-700.0, eval=Evaluation(50, [-1600.0]), restarts=2),
    ) == (
        f"{TRAINING} | env steps 36,000, 450/s | "
        "return -750.0 | evaluation -200.0 (iteration 100) | 3 min 40 s left | restarts 2"
    )


def test_status_says_that_a_run_is_offline_and_once_what_that_means():
    learner = learner_report(offline="400 env steps of demos: no env steps are collected")
    evaluator = worker_report(0, eval=Evaluation(100, [-100.0]), program="evaluator_0")
    reports = [learner, replay_report(transitions=0, capacity=70_000, fill_target=0), evaluator]
    assert line_of(*reports) == (
        f"{TRAINING} | offline | evaluation -100.0 (iteration 100) | 3 min 40 s left"
    )
    assert facts(snapshot_of(*reports)) == [
        "trains offline on 400 env steps of demos: no env steps are collected"
    ]


def test_status_line_shows_the_lessons_of_the_curriculum():
    lessons = "gap 2 of 3 (wide), mass 1 of 2"
    line = line_of(learner_report(lessons=lessons), replay_report(), worker_report())
    assert f" | lesson {lessons} | " in f"{line} | "


def test_status_line_shows_the_share_of_interventions_of_workers_that_have_one():
    shares = [{"interventions": 0.5}, {"interventions": 0.25, "distance_mean": 7.0}, {}]
    workers = [worker_report(number, numbers=numbers) for number, numbers in enumerate(shares)]
    assert f" | interventions {(0.5 + 0.25) / 2:.0%} | " in line_of(learner_report(), *workers)
    assert "interventions" not in line_of(learner_report(), workers[2])


def test_status_line_shows_the_success_rate_of_the_newest_evaluation():
    workers = [
        worker_report(0, eval=Evaluation(100, [-100.0, -300.0], successes=2)),
        worker_report(1, eval=Evaluation(100, [-200.0, -200.0])),  # only successes are reported
        worker_report(2, eval=Evaluation(100, [-200.0], successes=0)),
        worker_report(3, eval=Evaluation(50, [-1600.0], successes=0)),
    ]
    success = f"success {(2 + 0 + 0) / (2 + 2 + 1):.0%}"
    assert f" | evaluation -200.0 (iteration 100) | {success} | " in line_of(
        learner_report(), *workers
    )
    assert "success" not in line_of(learner_report(), workers[1])


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (40, "120/1,000 (12%) | return -750.0"),
        (80, "120/1,000 (12%) | return -750.0 | eval -200.0 | success 80% | 3 min 40 s left"),
        (100, "iteration 120 of 1,000 (12%) | return -750.0 | eval -200.0 | success 80% | "
              "3 min 40 s left"),
        (160, "iteration 120 of 1,000 (12%) | train steps 6,000, 200/s | return -750.0 | "
              "evaluation -200.0 (iteration 100) | success 80% | 3 min 40 s left | restarts 2"),
        (200, f"{TRAINING} | env steps 24,000, 300/s | return -750.0 | "
              "evaluation -200.0 (iteration 100) | success 80% | 3 min 40 s left | restarts 2"),
    ],
)  # fmt: skip
def test_a_terminal_shows_what_a_person_wants_to_see_first(columns, line):
    workers = [
        worker_report(0, eval=Evaluation(100, [-100.0, -300.0], successes=2)),
        worker_report(
            1, last_return=-700.0, restarts=2, eval=Evaluation(100, [-200.0] * 3, successes=2)
        ),
    ]
    assert line_at(columns, replay_report(), learner_report(), *workers) == line


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (80, "iteration 120 of 1,000 (12%) | return -800.0 | eval -200.0 | 3 min 40 s left"),
        (100, "iteration 120 of 1,000 (12%) | return -800.0 | evaluation -200.0 (iteration 100) | "
              "3 min 40 s left"),
        (160, "iteration 120 of 1,000 (12%) | train steps 6,000, 200/s | "
              "env steps 12,000, 150/s | return -800.0 | "
              "evaluation -200.0 (iteration 100) | 3 min 40 s left"),
    ],
)  # fmt: skip
def test_a_terminal_without_success_has_more_place(columns, line):
    worker = worker_report(0, eval=Evaluation(100, [-200.0]))
    assert line_at(columns, learner_report(), worker) == line


def test_a_narrow_terminal_shows_the_begin_of_trouble_beside_progress():
    worker = worker_report(0, failure="ValueError: the simulator has no joint called elbow")
    cut = "worker_0: ValueError: the simulator has…"
    assert len(cut) == 40
    assert line_at(80, learner_report(), worker) == f"{cut} | 120/1,000 (12%) | return -800.0"
    assert line_at(160, learner_report(), worker) == (
        f"worker_0: {worker.failure} | iteration 120 of 1,000 (12%) | train steps 6,000, 200/s | "
        "return -800.0 | 3 min 40 s left"
    )
    troubles = {f"worker_{k}": "damaged" for k in range(9)}
    line = line_at(80, learner_report(), unknown=troubles)
    assert line.startswith("unknown: worker_0 (damaged) | unknown: ") and line.endswith("…")


def test_a_narrow_terminal_shortens_the_starts_and_the_fill():
    names = ["learner", *(f"worker_{k}" for k in range(20))]
    assert line_at(80, replay_report(), missing=names) == "starting 21 programs"
    learner = learner_report(phase=Phase.WAITING_FOR_DATA, train_step=0)
    fill = line_at(40, replay_report(), learner, worker_report())
    assert fill == "filling 3,400/6,000 (57%)"


def test_status_line_says_how_long_all_have_waited_for_the_compilation():
    learner = learner_report(
        phase=Phase.COMPILING, train_step=0, iteration=0, secs_left=None, train_steps_per_sec=0.0,
        phase_secs={"compiling the train step": 12.4},
    )  # fmt: skip
    worker = worker_report(phase=Phase.WAITING_FOR_LEARNER, env_steps_per_sec=0.0)
    assert line_of(learner, worker) == (
        "compiling the train step, 12 s | iteration 0 of 1,000 (0%) | train steps 0, 0/s in int16 "
        "| env steps 12,000, 0/s | return -800.0"
    )
    assert line_at(80, learner, worker) == (
        "compiling the train step, 12 s | iteration 0 of 1,000 (0%) | return -800.0"
    )


def test_what_stays_so_for_the_run_is_a_fact_and_not_in_the_line():
    workers = [worker_report(k, obstacle="a convolution") for k in range(2)]
    assert facts(snapshot_of(*workers)) == ["workers act in TensorFlow: a convolution"]
    assert "TensorFlow" not in line_of(learner_report(), *workers)


def test_status_line_during_the_random_fill_shows_its_progress():
    learner = learner_report(phase=Phase.WAITING_FOR_DATA, train_step=0)
    assert line_of(replay_report(), learner, worker_report(phase=Phase.RANDOM_FILL)) == (
        "filling the replay buffer 3,400 of 6,000 (57%) | env steps 12,000, 150/s | return -800.0"
    )


def test_status_line_before_the_learner_has_reported_names_who_is_starting():
    worker = worker_report(phase=Phase.STARTING)
    assert line_of(replay_report(), worker, missing=["learner"]) == "starting learner, worker_0"


def test_a_report_that_cannot_be_read_is_unknown_and_not_starting():
    unknown = {"worker_1": "worker_1.json: env_steps is missing"}
    line = line_of(learner_report(), worker_report(), missing=["worker_1"], unknown=unknown)
    assert line.startswith("unknown: worker_1 (worker_1.json: env_steps is missing) | iteration")
    line = line_of(worker_report(), missing=["learner"], unknown={"learner": "damaged"})
    assert line == "unknown: learner (damaged) | env steps 12,000, 150/s | return -800.0"
    line = line_of(worker_report(), missing=["learner", "replay"], unknown={"replay": "damaged"})
    assert line == "unknown: replay (damaged) | starting learner"


@pytest.mark.parametrize("returns", [(1e308, 1e308), (float("inf"), float("-inf"))])
def test_status_line_shows_returns_of_any_size(returns):
    evaluations = [Evaluation(100, list(returns))]
    workers = [worker_report(k, last_return=r, eval=evaluations[0]) for k, r in enumerate(returns)]
    mean = "nan" if returns[1] < 0 else f"{1e308:,.1f}"
    assert f"return {mean} | evaluation {mean} (" in line_of(learner_report(), *workers)


def test_status_line_names_workers_with_an_old_policy_while_the_learner_trains():
    workers = [worker_report(k, policy_age_secs=age) for k, age in enumerate((None, 3.0, 75.0))]
    workers.append(worker_report(3, policy_age_secs=500.0, phase=Phase.STOPPED))
    assert line_of(learner_report(), *workers).startswith("OLD POLICY: worker_2 (1 min 15 s) | ")
    waiting = learner_report(phase=Phase.WAITING_FOR_DATA)
    assert "OLD POLICY" not in line_of(waiting, replay_report(transitions=7_000), *workers)


def test_status_line_counts_troubles_and_names_parked_workers():
    line = line_of(
        learner_report(),
        worker_report(0, env_failures=2, rejected_steps=0, items_sent_again=1_200),
        worker_report(1, phase=Phase.PARKED, env_failures=5, unprotected_steps=48, restarts=1),
    )
    assert line.startswith("PARKED: worker_1 | iteration 120 of")
    assert line.endswith(
        " left | env failures 7 | items recovered 1,200 | not in a journal 48 | restarts 1"
    )


def test_status_line_says_that_a_time_limit_looks_like_a_termination():
    reports = [
        worker_report(0),
        worker_report(1, suspicion="10 episodes"),
        worker_report(2, suspicion="9"),
    ]
    assert line_of(learner_report(), *reports).startswith(
        "TIME LIMIT TAKEN FOR A TERMINATION? See stdout/worker_1.log | iteration 120 of"
    )


def test_status_line_says_what_a_worker_remarks_on_its_environment():
    reports = [worker_report(0), worker_report(1, remark="SUCCESS CANNOT BE READ")]
    assert line_of(learner_report(), *reports).startswith(
        "SUCCESS CANNOT BE READ (see stdout/worker_1.log) | iteration 120 of"
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
    assert line_of(learner_report(), free_bytes=free).split(" | ")[0] == warning


def test_status_line_names_programs_that_do_not_respond():
    line = line_of(
        learner_report(phase=Phase.SAVING),
        worker_report(0, phase=Phase.FINISHED),
        worker_report(1),
        silent_secs={"learner": 75.0, "worker_0": 500.0, "worker_1": 29.0},
    )
    assert line.startswith("NOT RESPONDING: learner (1 min 15 s) | saving | iteration 120 of")
    assert "worker" not in line


def test_line_of_a_run_that_has_ended_has_neither_rates_nor_what_only_a_running_one_needs():
    line = line_of(
        learner_report(phase=Phase.FINISHED), worker_report(phase=Phase.PARKED, env_failures=5),
        is_running=False, silent_secs={"learner": 75.0}, free_bytes=0,
    )  # fmt: skip
    assert line == (
        "finished | iteration 120 of 1,000 (12%) | train steps 6,000 | env steps 12,000 | "
        "return -800.0 | env failures 5"
    )
    assert line_of(learner_report(phase=Phase.SAVING), is_running=False) == (
        "iteration 120 of 1,000 (12%) | train steps 6,000"
    )


@pytest.mark.parametrize(
    ("secs", "text"),
    [(0.2, "0 s"), (45, "45 s"), (60, "1 min"), (200.4, "3 min 20 s"), (18_600, "5 h 10 min"),
     (3_600, "1 h"), (187_200, "2 d 4 h")],
)  # fmt: skip
def test_format_duration_shows_the_two_largest_units(secs, text):
    assert format_duration(secs) == text


def test_edited_files_apply_at_the_next_start_of_a_run_that_lives():
    assert "params.py edited: applies at the next start" in line_of(edited=["params.py"])
    assert "a and b and c edited" in line_of(edited=["a", "b", "c"])
    assert "a and b and 2 more files edited" in line_of(edited=["a", "b", "c", "d"])
    assert "edited" not in line_of(edited=["params.py"], is_running=False)


def test_a_mirror_is_mentioned_only_if_it_has_a_problem():
    assert "mirror" not in line_of(learner_report(), mirror_report())
    line = line_of(learner_report(), mirror_report(problem="connection refused"))
    assert line.startswith("mirror-mlflow IS BEHIND: connection refused | ")


def test_status_line_of_several_hosts_says_what_runs_where():
    reports = [
        replay_report(host="n1"),
        learner_report(host="n1"),
        *(worker_report(k, host="n2") for k in range(3)),
        worker_report(10, host="n3"),
        dataclasses.replace(worker_report(host="n3"), program="evaluator_0"),
    ]
    line = line_of(*reports)
    assert line.endswith(
        " | n1: learner, replay | n2: worker_0 to worker_2 | n3: evaluator_0, worker_10"
    )
    assert "n1" not in line_of(replay_report(), learner_report(), worker_report())


def test_workers_that_have_left_collect_nothing_and_are_not_called_silent():
    gone = worker_report(1, phase=Phase.STOPPED)
    silent = worker_report(2)
    line = line_of(
        learner_report(), worker_report(0), gone, silent,
        silent_secs={"worker_0": 1.0, "worker_1": 90.0, "worker_2": 90.0},
    )  # fmt: skip
    assert line.startswith("NOT RESPONDING: worker_2 (1 min 30 s) | ")
    assert "env steps 36,000, 150/s" in line
