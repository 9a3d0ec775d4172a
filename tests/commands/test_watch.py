"""The screen of `sac watch`."""

import csv
import io

import pytest
from report_fakes import learner_report, mirror_report, replay_report, worker_report
from rich.console import Console
from rich.live import Live
from run_files import write_run

from tfagents_system.commands.dashboard import Dashboard, last_errors, sparkline, who_waits
from tfagents_system.core.state.mirror_addresses import write_address
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.show.status_line import Snapshot
from tfagents_system.records.episode_rows import COLUMNS


def text_of(renderable):
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(renderable)
    return console.export_text()


def snapshot_of(*reports, **changes):
    fields = {"free_bytes": 10**12, "checkpoint_bytes": 10**6} | changes
    return Snapshot(reports={report.program: report for report in reports}, **fields)


def test_sparkline_goes_from_the_least_to_the_largest():
    assert sparkline([0.0, 7.0]) == "▁█"
    assert sparkline([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5.0]) == "▁"
    # means of neighbours: (0 + 0) / 2 and (6 + 8) / 2
    assert sparkline([0.0, 0.0, 6.0, 8.0], length=2) == "▁█"


def test_who_waits_names_the_bottleneck():
    assert who_waits({}).startswith("No program waits")
    filling = {"learner": {"waiting for the first data": 0.9}, "worker_0": {"env step": 1.0}}
    assert who_waits(filling).startswith("The replay buffer is being filled")
    waiting = filling | {"worker_0": {"waiting for the server": 0.9}}  # while train steps compile
    assert who_waits(waiting) == who_waits(filling)
    collection = {"learner": {"waiting for data": 0.6}, "worker_0": {"waiting for the server": 0.1}}
    assert who_waits(collection).startswith("The learner waits for data 60% of the time")
    learning = {
        "learner": {"waiting for data": 0.05},
        "worker_0": {"waiting for the server": 0.8},
        "worker_1": {"waiting for the server": 0.6},
    }
    assert who_waits(learning).startswith("Workers wait for the learner 70% of the time")


def test_screen_shows_programs_shares_of_time_errors_and_returns(tmp_path):
    paths = ExperimentPaths(tmp_path / "walker")
    paths.stdout("worker_3").parent.mkdir(parents=True)
    paths.stdout("worker_3").write_text(
        "=== start 1\nTraceback (most recent call last):\n  x\nValueError: no such leg\ngoing on\n"
    )
    paths.episodes.mkdir()
    dashboard = Dashboard(paths)
    workers = {"cpus": "4", "host": "node7", "memory_mb": 250.0, "restarts": 2}
    before = worker_report(3, phase_secs={"env step": 10.0, "acting": 10.0}, **workers)
    after = worker_report(3, phase_secs={"env step": 13.0, "acting": 11.0}, **workers)
    dashboard.draw(snapshot_of(learner_report(), replay_report(), before))
    text = text_of(dashboard.draw(snapshot_of(learner_report(), replay_report(), after)))
    replay, learner, worker = (
        next(line for line in text.splitlines() if line.startswith(f"{name} "))
        for name in ("replay", "learner", "worker_3")
    )
    assert "5% full" in replay  # 3,400 of 70,000
    assert "200 train steps/s" in learner
    for part in ("node7", " 4 ", "150 env steps/s", "250.0 MB", " 2 ", "env step 75%, acting 25%"):
        assert part in worker
    assert "worker_3: ValueError: no such leg" in text
    assert "evaluations  none yet" in text

    values = {"iteration": 1, "env_step": 9, "length": 1, "success": "", "wall_time": 5.0}
    with (paths.episodes / "eval_0.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval=0)
        writer.writeheader()
        for step in (1, 2):
            row = values | {"train_step": step, "return": 10.0 * step}
            writer.writerow({name: row[name] for name in COLUMNS if name in row})
    text = text_of(dashboard.draw(snapshot_of(learner_report(), after)))
    assert "▁█  10.0 … 20.0" in text


def test_screen_shows_the_course_of_the_success_rate_if_there_is_one(tmp_path):
    paths = write_run(tmp_path / "arm", [1, 2, 3, 4], successes=[1, 1, 0, 1])
    text = text_of(Dashboard(paths).draw(snapshot_of(learner_report())))
    assert f"success      ▁█  0% … {3 / 4:.0%}" in text
    paths = write_run(tmp_path / "leg", [1])
    assert "success" not in text_of(Dashboard(paths).draw(snapshot_of(learner_report())))


def test_a_terminal_that_is_too_low_shows_all_but_the_last_programs(tmp_path):
    paths = write_run(tmp_path / "arm", [1, 2])
    paths.stdout("worker_3").parent.mkdir(exist_ok=True)
    paths.stdout("worker_3").write_text("ValueError: no such leg\n")
    dashboard = Dashboard(paths)
    screen = dashboard.draw(snapshot_of(learner_report(), *map(worker_report, range(60))))
    output = io.StringIO()
    console = Console(width=200, height=20, file=output, force_terminal=True)
    with Live(screen, console=console, auto_refresh=False) as live:
        live.refresh()
        shown = output.getvalue()
    assert "worker_0 " in shown and "worker_59" not in shown
    for text in ("evaluations", "ValueError: no such leg", "No program waits"):
        assert text in shown


@pytest.mark.parametrize("paused", [(), ("collection",), ("learning",)])
def test_a_pause_is_no_bottleneck(tmp_path, paused):
    dashboard = Dashboard(ExperimentPaths(tmp_path))
    for secs in (10.0, 20.0):
        phases = {"waiting for data": secs}
        screen = dashboard.draw(snapshot_of(learner_report(phase_secs=phases), paused=paused))
    advice = "The learner waits for data 100% of the time: collection is the bottleneck"
    assert (advice in text_of(screen)) == (not paused)


def test_screen_shows_what_a_mirror_has_handed_over(tmp_path):
    text = text_of(Dashboard(ExperimentPaths(tmp_path)).draw(snapshot_of(mirror_report())))
    (line,) = (line for line in text.splitlines() if line.startswith("mirror-mlflow"))
    assert "mirroring" in line
    assert "1,200 records" in line


def test_screen_shows_what_stays_so_for_the_run(tmp_path):
    worker = worker_report(obstacle="a convolution")
    text = text_of(Dashboard(ExperimentPaths(tmp_path)).draw(snapshot_of(learner_report(), worker)))
    assert text.count("workers act in TensorFlow: a convolution") == 1


def test_screen_shows_where_the_mirrors_are(tmp_path):
    paths = ExperimentPaths(tmp_path)
    (paths.mirrors / "wandb").mkdir(parents=True)
    write_address(paths.mirrors / "wandb", "https://me:secret@wandb.example/me/sac/runs/1")
    text = text_of(Dashboard(paths).draw(snapshot_of(mirror_report())))
    assert "mirrored to  wandb: https://wandb.example/me/sac/runs/1" in text


def test_screen_shows_numbers_of_log_info_as_means_over_workers(tmp_path):
    reports = [worker_report(k, numbers={"distance_mean": 0.25 + k}) for k in range(2)]
    text = text_of(Dashboard(ExperimentPaths(tmp_path)).draw(snapshot_of(*reports)))
    assert f"log_info     distance_mean {(0.25 + 1.25) / 2}" in text


def test_logs_without_errors_show_none(tmp_path):
    paths = ExperimentPaths(tmp_path)
    paths.stdout("learner").parent.mkdir()
    paths.stdout("learner").write_text("Checkpoint at train step 100.\nErrors: none\n")
    assert last_errors(paths) == []
