import json

import pytest
from run_files import write_episodes, write_numbers, write_run

from tfagents_system.comparison.run_groups import find_group
from tfagents_system.comparison.settings_difference import settings_differences
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.run_history import EvaluationPoint, number_names, read_evaluations
from tfagents_system.records.success import success_rate


@pytest.fixture
def paths(tmp_path):
    return ExperimentPaths(tmp_path)


def test_evaluations_of_all_workers_are_joined_by_train_step(paths):
    write_episodes(paths, "collect", 0, [(0, 20, -9, 100), (10, 40, -8, 110), (90, 60, -8, 150)])
    write_episodes(paths, "collect", 1, [(0, 30, -9, 105), (90, 70, -8, 140)])
    write_episodes(paths, "eval", 0, [(10, 40, -4, 112), (10, 40, -6, 114), (90, 60, -2, 145)])
    write_episodes(paths, "eval", 1, [(10, 30, -5, 113), (90, 70, "nan", 144), (90, 70, -3, 146)])
    assert read_evaluations(paths) == [
        EvaluationPoint(10, 40 + 30, 114 - 100, [-5, -6, -4]),
        EvaluationPoint(90, 40 + 70, 146 - 100, [-2, -3]),
    ]


def test_numbers_of_an_evaluation_are_means_over_the_episodes_of_all_workers(paths):
    write_episodes(paths, "eval", 0, [(10, 40, -4, 112), (20, 40, -6, 114)])
    write_numbers(paths, "eval", 0, [(10, "distance_mean", 1), (10, "distance_mean", 3)])
    write_numbers(paths, "eval", "evaluator_1", [(10, "distance_mean", 5), (20, "force_max", 7)])
    write_numbers(paths, "eval", "evaluator_2", [(20, "action_share_0", 0.25)])
    write_numbers(paths, "collect", 0, [(10, "distance_mean", 100)])
    points = read_evaluations(paths)
    assert [p.numbers for p in points] == [
        {"distance_mean": (1 + 3 + 5) / 3},
        {"force_max": 7.0, "action_share_0": 0.25},
    ]
    assert number_names(points) == ["distance_mean", "force_max"]


def test_success_rates_count_an_episode_without_a_report_as_a_failure(paths):
    write_episodes(paths, "eval", 0, [(10, 40, -4, 112), (20, 40, -6, 114, 1), (20, 40, -6, 115)])
    write_episodes(paths, "eval", 1, [(20, 40, -4, 114, 1), (20, 40, -6, 115, 0)])
    assert [p.success_rate for p in read_evaluations(paths)] == [0 / 1, (1 + 0 + 1 + 0) / 4]


def test_a_run_whose_episodes_report_no_success_has_no_rate(paths):
    write_episodes(paths, "eval", 0, [(10, 40, -4, 112)])
    assert [p.success_rate for p in read_evaluations(paths)] == [None]


def test_time_in_which_the_run_was_stopped_does_not_count(paths):
    # It starts at 990 s, writes last at 1020 s, goes on at 1500 s.
    starts = ["1970-01-01T00:16:30+0000", "1970-01-01T00:25:00+0000"]
    paths.provenance.write_text(json.dumps({"started_at": starts}))
    write_episodes(paths, "collect", 0, [(0, 20, -9, 1000), (10, 40, -8, 1020), (10, 60, -8, 1510)])
    write_episodes(paths, "eval", 0, [(10, 40, -4, 1010), (20, 60, -4, 1512)])
    times = [point.training_secs for point in read_evaluations(paths)]
    assert times == [1010 - 990, (1020 - 990) + (1512 - 1500)]


def test_time_of_a_start_that_wrote_nothing_does_not_count(paths):
    # It starts at 990, 1200, 1500 and 1800 s, and writes after the second and the fourth start.
    starts = [f"1970-01-01T00:{minutes}+0000" for minutes in ("16:30", "20:00", "25:00", "30:00")]
    paths.provenance.write_text(json.dumps({"started_at": starts}))
    write_episodes(paths, "eval", 0, [(10, 20, -4, 1210), (20, 40, -4, 1805)])
    times = [point.training_secs for point in read_evaluations(paths)]
    assert times == [1210 - 1200, (1210 - 1200) + (1805 - 1800)]


def test_start_that_is_no_time_is_refused(paths):
    paths.provenance.write_text(json.dumps({"started_at": ["yesterday"]}))
    with pytest.raises(ConfigError, match="provenance.json: damaged .*'yesterday'"):
        read_evaluations(paths)


def test_experiment_without_evaluation_has_none(paths):
    assert read_evaluations(paths) == []


def test_group_is_a_folder_a_pattern_or_a_begin(tmp_path):
    for name in ("a", "a_1", "a_2", "b_1", "b_2"):
        (tmp_path / name / "episodes").mkdir(parents=True)
    (tmp_path / "b_file").touch()
    (tmp_path / "b_x").mkdir()

    def names(text):
        return [paths.root.name for paths in find_group(str(tmp_path / text)).experiments]

    assert names("a") == ["a"]
    assert names("a*") == ["a", "a_1", "a_2"]
    assert names("b") == names("b_?") == ["b_1", "b_2"]
    assert find_group(str(tmp_path / "b_")).name == "b_"
    with pytest.raises(ConfigError, match="c_1: no such experiment folder. Did you mean"):
        find_group(str(tmp_path / "c_1"))


def test_a_group_leaves_out_what_is_no_seed_of_it(tmp_path, capsys):
    renamed = "a_seed_1_until_20260101_120000"
    trials = [f"a_trial_{k}_seed_{s}" for k in (10, 1) for s in (1, 2)]
    for name in ("a_seed_1", "a_seed_2", renamed, *trials, "ab_1"):
        (tmp_path / name / "episodes").mkdir(parents=True)

    def names(text):
        return [paths.root.name for paths in find_group(str(tmp_path / text)).experiments]

    for text in ("a", "a_", "a_*"):
        assert names(text) == ["a_seed_1", "a_seed_2"]
        left_out = ", ".join([renamed, *trials])
        assert capsys.readouterr().err == f"{tmp_path}/{text}: left out {left_out}\n"
    assert names("a_trial_1") == trials[2:]
    assert names("a_trial") == names("a_trial_*") == trials
    assert names("a_*_until_*") == names(renamed) == [renamed]
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigError, match="only trials of sweeps, .*, as .*a_trial_10_seed_1"):
        find_group(str(tmp_path / "a_t*"))
    with pytest.raises(ConfigError, match="not a pattern"):
        find_group(str(tmp_path / "a**"))


def test_settings_that_differ_between_groups(tmp_path):
    first = [write_run(tmp_path / f"a_{k}", [0], provenance={"seed": k}) for k in range(2)]
    second = [
        write_run(tmp_path / "b_0", [0], {"discount": 0.9}, {"packages": {"numpy": "2"}}),
        write_run(tmp_path / "b_1", [0], {"discount": 0.8, "new": None}),
    ]
    assert settings_differences([first, first]) == []
    assert settings_differences([first, second]) == [
        ("discount", ["0.99", "0.8 or 0.9"]),
        ("packages numpy", ["'1'", "'1' or '2'"]),
        ("new", ["-", "- or None"]),
    ]


def test_files_that_differ_within_a_group_are_told_apart(tmp_path):
    runs = [write_run(tmp_path / name, [0]) for name in "abc"]
    for paths, sign in zip(runs, "123", strict=True):
        spec = json.loads(paths.run_spec.read_text())
        paths.run_spec.write_text(json.dumps(spec | {"files": {"params.py": sign * 64}}))
    assert settings_differences([runs[:2], [runs[0], runs[2]]]) == [
        ("files params.py", [f"sha256 {'1' * 8} or sha256 {sign * 8}" for sign in "23"])
    ]


def test_settings_of_a_damaged_file_are_refused(tmp_path):
    paths = write_run(tmp_path / "a", [0])
    paths.run_spec.write_text("[]")
    with pytest.raises(ConfigError, match="run_spec.json: damaged"):
        settings_differences([[paths]])


def test_fifty_successes_are_a_rate_of_exactly_one():
    assert success_rate([True] * 50) == 1


def test_the_newest_evaluation_does_not_count_while_episodes_are_missing(tmp_path):
    for name, last, expected in (("half", [1, 2], [100]), ("whole", [1, 2, 3], [100, 200])):
        paths = write_run(tmp_path / name, last, {"n_eval_episodes": 3})
        assert [point.train_step for point in read_evaluations(paths)] == expected
