"""Table, CSV, plot and HPARAMS of a sweep."""

import csv

import pytest
from commands.sweeps.fake_training import make_task
from run_files import write_episodes
from tensorboard.plugins.hparams import metadata

from tfagents_system.commands.sweeps.table import mean_and_interval, show_results
from tfagents_system.commands.sweeps.task_sweep import TaskSweep
from tfagents_system.commands.sweeps.trials import grid_trials
from tfagents_system.records.event_files import read_events, read_scalars


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Two finished trials, and one of which a seed has failed."""
    monkeypatch.chdir(tmp_path)
    grid = grid_trials({"discount": [0.9, 0.95, 0.99], "matmul_precision": ["float32"]})
    sweep = TaskSweep(make_task(seeds=(1, 2)), grid, None)
    returns = iter([10.0, 20.0, 40.0, 60.0, 500.0, None])
    for experiment in sweep.experiments():
        paths, result = experiment.paths, next(returns)
        paths.root.mkdir(parents=True)
        if result is not None:
            write_episodes(paths, "eval", 0, [(100, 40, -9, 1000), (200, 60, result, 1021)])
            paths.finished.write_text("{}")
        sweep.end(experiment)
    return sweep


def test_an_interval_is_that_of_the_mean_over_seeds():
    assert mean_and_interval([5.0]) == (5.0, (5.0, 5.0))
    # Of two seeds, a quarter of the resamples has twice the lower one: more than 2.5 %.
    assert mean_and_interval([40.0, 60.0]) == ((40.0 + 60.0) / 2, (40.0, 60.0))


def test_finished_trials_are_ranked_with_seeds_and_interval(sweep, capsys):
    show_results(sweep)
    *table, files, tensorboard = capsys.readouterr().out.splitlines()
    assert table == [
        "trial  discount  matmul_precision  return  95 % interval   seeds     state",
        "    1      0.95           float32      50       [40, 60]  2 of 2  finished",
        "    0       0.9           float32      15       [10, 20]  2 of 2  finished",
        "    2      0.99           float32     500              -  1 of 2    failed",
    ]
    assert files == "logs/arm_sweep/sweep.csv, logs/arm_sweep/sweep.png"
    assert tensorboard.endswith("tensorboard --logdir logs/arm_sweep/hparams")
    folder = sweep.task.folder
    with (folder / "sweep.csv").open(newline="") as file:
        first, *_, last = csv.DictReader(file)
    assert first == {
        "trial": "1", "discount": "0.95", "matmul_precision": "float32", "mean_return": "50",
        "interval_low": "40", "interval_high": "60", "seeds": "2", "state": "finished",
    }  # fmt: skip
    assert (last["mean_return"], last["seeds"], last["state"]) == ("500", "1", "failed")
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_is_printed_although_nothing_can_be_written(sweep, capsys):
    (sweep.task.folder / "sweep.csv").mkdir()
    with pytest.raises(IsADirectoryError):
        show_results(sweep)
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["1", "0.95", "float32", "50"]


def test_success_is_a_column_if_any_trial_has_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sweep = TaskSweep(make_task(seeds=(1, 2)), grid_trials({"discount": [0.9, 0.95]}), None)
    reports = iter([[(1,), (0,)], [(1,), (1,)], [()], [()]])  # of each seed's two episodes, or none
    for number, experiment in enumerate(sweep.experiments()):
        rows = [(9, 9, -number, 1000, *reported) for reported in next(reports)]
        write_episodes(experiment.paths, "eval", 0, rows)
        experiment.paths.finished.write_text("{}")
        sweep.end(experiment)
    show_results(sweep)
    header, *rows = (line.split() for line in capsys.readouterr().out.splitlines()[:3])
    assert header[-3:] == ["success", "seeds", "state"]
    assert [row[-5] for row in rows] == [f"{(1 / 2 + 2 / 2) / 2:.0%}", "-"]
    with (sweep.task.folder / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[-2:] == ["state", "success_rate"]
    assert [row["success_rate"] for row in rows] == ["0.75", ""]
    names = [e.name for e in sweep.task.experiments_of(sweep.results()[0].trial)]
    scalars = read_scalars(sweep.task.folder / "hparams" / names[0])
    assert [scalar.value for scalar in scalars["final_success_rate"]] == [1 / 2]


def test_tensorboard_gets_the_settings_and_the_last_return_of_each_run(sweep):
    for _ in range(2):  # the second time replaces the files
        show_results(sweep)
    folders = sorted((sweep.task.folder / "hparams").iterdir())
    assert len(folders) == 5
    (file,) = folders[3].glob("events.out.tfevents.*")
    found = {entry.tag: entry for event, _ in read_events(file) for entry in event.summary.value}
    content = found[metadata.SESSION_START_INFO_TAG].metadata.plugin_data.content
    settings = metadata.parse_session_start_info_plugin_data(content).hparams
    assert settings["discount"].number_value == 0.95 and settings["seed"].number_value == 2
    assert settings["matmul_precision"].string_value == "float32"
    (scalar,) = read_scalars(folders[3])["final_return"]
    assert (scalar.step, scalar.value) == (200, 60.0)
