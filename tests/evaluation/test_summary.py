import csv
import math
import pathlib

import pytest

from tfagents_system.collection.rollouts import Episode
from tfagents_system.evaluation import summary
from tfagents_system.evaluation.summary import EvaluatedEpisode
from tfagents_system.records.bootstrap import mean_and_standard_error


def evaluated(index, episode_return, length=10, success=None, video=None):
    return EvaluatedEpisode(index, Episode(episode_return, length, success, True), video)


def test_mean_and_standard_error():
    mean, error = mean_and_standard_error([1.0, 2.0, 6.0])
    assert mean == 3.0
    deviation = math.sqrt(((1 - 3) ** 2 + (2 - 3) ** 2 + (6 - 3) ** 2) / (3 - 1))
    assert error == pytest.approx(deviation / math.sqrt(3))


def test_standard_error_of_one_episode_is_unknown():
    assert mean_and_standard_error([5.0]) == (5.0, None)
    assert summary.summary_lines([evaluated(0, 5.0)]) == ["mean return 5", "mean length 10"]


def test_numbers_of_log_info_have_a_mean_each():
    episodes = [evaluated(0, 5.0), evaluated(1, 5.0), evaluated(2, 5.0)]
    numbers = ({"distance_last": 1.0}, {"distance_last": 2.0, "force_max": 7.0}, {})
    episodes = [
        e._replace(episode=e.episode._replace(numbers=n))
        for e, n in zip(episodes, numbers, strict=True)
    ]
    lines = summary.summary_lines(episodes)
    assert lines[2:] == [
        f"mean distance_last {(1 + 2) / 2}, standard error 0.5",
        "mean force_max 7",
    ]


@pytest.mark.parametrize("extreme", [math.inf, -math.inf, math.nan, 1.7e308])
def test_returns_that_are_not_finite_have_a_mean_that_says_so(extreme):
    lines = summary.summary_lines([evaluated(k, value) for k, value in enumerate([extreme] * 3)])
    assert lines[0].startswith("mean return ")
    assert any(word in lines[0] for word in ("inf", "nan"))


@pytest.mark.parametrize(
    ("successes", "rate"),
    [
        ([True, False, True, None], "success rate 50% (2 of 4)"),
        ([None, None, True, None, True], "success rate 40% (2 of 5)"),  # said of successes alone
        ([None, False], "success rate 0% (0 of 2)"),
    ],
)
def test_an_episode_without_a_report_has_failed_if_another_has_one(tmp_path, successes, rate):
    episodes = [evaluated(k, 2.0, success=success) for k, success in enumerate(successes)]
    assert summary.summary_lines(episodes)[2:] == [rate]
    summary.write_csv(tmp_path / "episodes.csv", episodes, seed=0)
    with (tmp_path / "episodes.csv").open(newline="") as file:
        assert [row["success"] for row in csv.DictReader(file)] == [
            str(int(success is True)) for success in successes
        ]


def test_success_that_no_episode_reports_is_unknown(tmp_path):
    summary.write_csv(tmp_path / "episodes.csv", [evaluated(0, 1.0), evaluated(1, 2.0)], seed=0)
    with (tmp_path / "episodes.csv").open(newline="") as file:
        assert [row["success"] for row in csv.DictReader(file)] == ["", ""]


def test_rows_stand_below_the_header():
    rows = [summary.row(evaluated(12, -118.1796, 200, True)), summary.row(evaluated(3, 1e-9, 7))]
    assert [summary.HEADER, *rows] == [
        "episode        return   length  success",
        "     12       -118.18      200  yes",
        "      3         1e-09        7  -",
    ]


def test_csv_has_the_exact_returns_and_replaces_the_old_file(tmp_path):
    path = tmp_path / "episodes.csv"
    path.write_text("old")
    third = 1 / 3
    video = pathlib.Path("videos/episode_0.mp4")
    episodes = [evaluated(0, third, 7, True, video), evaluated(1, -2.0, 9)]
    summary.write_csv(path, episodes, seed=5)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"episode": "0", "return": repr(third), "length": "7", "success": "1", "seed": "5",
         "video": "episode_0.mp4"},
        {"episode": "1", "return": "-2.0", "length": "9", "success": "0", "seed": "5", "video": ""},
    ]  # fmt: skip
    assert [entry.name for entry in tmp_path.iterdir()] == ["episodes.csv"]
