import json
import os
import subprocess
import sys

import numpy as np
import pytest
from run_files import write_episodes, write_numbers, write_run

from tfagents_system.comparison.curves import Curve, band, make_panels
from tfagents_system.comparison.run_groups import RunGroup, find_group
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.event_files import read_scalars
from tfagents_system.records.event_log import EventLog


def write_events(folder, *scalars):
    """Writes (step, values by tag) in turn."""
    log = EventLog(folder)
    for step, values in scalars:
        log.write(step, values)
    log.close()


def pairs(scalars):
    return [(scalar.step, scalar.value) for scalar in scalars]


def test_scalars_of_all_files_with_the_newest_for_each_step(tmp_path):
    write_events(tmp_path, (10, {"a": 1.0, "b": 0.5}), (20, {"a": 2.0}), (30, {"a": 3.0}))
    (first,) = tmp_path.iterdir()
    first.rename(tmp_path / "events.out.tfevents.1.first")
    write_events(tmp_path, (20, {"a": 4.0}), (25, {"a": 5.0}))  # resumed from a checkpoint
    scalars = read_scalars(tmp_path)
    assert pairs(scalars["a"]) == [(10, 1), (20, 4), (25, 5), (30, 3)]
    assert pairs(scalars["b"]) == [(10, 0.5)]
    assert read_scalars(tmp_path / "nowhere") == {}


def test_event_that_was_cut_short_ends_its_file(tmp_path):
    write_events(tmp_path, (10, {"a": 1.0}), (20, {"a": 2.0}))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        found = pairs(read_scalars(tmp_path).get("a", []))
        assert found in ([], [(10, 1)])
    file.write_bytes(whole)
    assert pairs(read_scalars(tmp_path)["a"]) == [(10, 1), (20, 2)]


def test_event_files_are_read_without_tensorflow():
    script = (
        "import sys, tfagents_system.comparison.plots\n"
        "print({'tensorflow', 'tf_agents'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert done.stdout == "set()\n", done.stderr


def test_band_is_the_mean_where_all_seeds_have_data():
    result = band([Curve([0, 10, 20], [0, 10, 0]), Curve([10, 30], [4, 6])])
    np.testing.assert_array_equal(result.xs, [10, 20])
    np.testing.assert_array_equal(result.mean, [(10 + 4) / 2, (0 + 5) / 2])
    # Of two seeds, both draws are the lower one in a quarter of the resamples, more than 2.5 %.
    np.testing.assert_array_equal(result.low, [4, 0])
    np.testing.assert_array_equal(result.high, [10, 5])


def test_band_of_one_seed_has_no_width():
    result = band([Curve([1, 2], [5, 7])])
    np.testing.assert_array_equal(result.mean, [5, 7])
    np.testing.assert_array_equal(result.low, result.high)


def test_band_of_many_points_keeps_some_of_them_and_both_ends():
    xs = [float(x) for x in range(10_000)]
    result = band([Curve(xs, xs)])
    assert len(result.xs) == 500
    assert (result.xs[0], result.xs[-1]) == (0, 9_999)
    np.testing.assert_array_equal(result.mean, result.xs)


def test_seeds_that_have_no_part_in_common_have_no_band():
    assert len(band([Curve([1, 2], [5, 7]), Curve([3], [1])]).xs) == 0


@pytest.fixture
def group(tmp_path):
    for seed in range(2):
        paths = write_run(tmp_path / f"run_{seed}", [seed])
        write_events(
            paths.train_summaries / "learner",
            (100, {"learner/critic_loss": 1.0, "learner/alpha": 0.5, "learner/loss": 9.0}),
            (200, {"learner/critic_loss": float("nan"), "learner/alpha": 0.25}),
        )
    write_events(paths.train_summaries / "worker_1", (40, {"curriculum/slope": 3.0, "other": 1.0}))
    return find_group(str(tmp_path / "run"))


def test_panels_hold_returns_losses_alpha_and_curriculum(group):
    panels = {(panel.title, panel.x_label): panel.groups for panel in make_panels([group])}
    assert list(panels) == [
        ("episode return", "train steps"),
        ("episode return", "env steps"),
        ("episode return", "minutes of training"),
        ("critic loss", "train steps"),
        ("alpha", "train steps"),
        ("slope", "env steps"),
    ]
    by_train_steps, by_env_steps, by_minutes, critic_loss, alpha, slope = panels.values()
    assert by_train_steps == [[Curve([100, 200], [-7, 0]), Curve([100, 200], [-7, 1])]]
    # Evaluated at 1011 s and 1021 s, after the last collected step 40; the run began at 990 s.
    assert by_env_steps == [[Curve([40], [0]), Curve([40], [1])]]
    minutes = [(1011 - 990) / 60, (1021 - 990) / 60]
    assert by_minutes == [[Curve(minutes, [-7, 0]), Curve(minutes, [-7, 1])]]
    assert critic_loss == [[Curve([100], [1]), Curve([100], [1])]]  # without nan
    assert alpha == [[Curve([100, 200], [0.5, 0.25])] * 2]
    assert slope == [[Curve([40], [3])]]  # of the one experiment that has it


def test_numbers_of_log_info_have_a_panel(tmp_path):
    paths = write_run(tmp_path / "run", [1])
    write_numbers(paths, "eval", 0, [(100, "distance_mean", 3), (200, "distance_mean", 2)])
    panels = {panel.title: panel for panel in make_panels([RunGroup("run", [paths])])}
    assert panels["distance_mean"].x_label == "train steps"
    assert panels["distance_mean"].groups == [[Curve([100, 200], [3, 2])]]


def test_success_rate_has_panels_like_the_return_if_any_run_reports_success(tmp_path):
    write_run(tmp_path / "a_1", [1, 2], successes=[1, 0])
    write_run(tmp_path / "a_2", [1, 2])
    panels = make_panels([find_group(str(tmp_path / "a_"))])
    found = {panel.x_label: panel.groups for panel in panels if panel.title == "success rate"}
    assert list(found) == ["train steps", "env steps", "minutes of training"]
    assert found["train steps"] == [[Curve([100, 200], [0, 1 / 2])]]


def test_experiment_without_data_has_no_panels(tmp_path):
    paths = ExperimentPaths(tmp_path)
    write_episodes(paths, "collect", 0, [(0, 20, -9, 1000)])
    paths.provenance.write_text(json.dumps({"started_at": []}))
    assert make_panels([RunGroup("empty", [paths])]) == []
