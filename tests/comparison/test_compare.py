import numpy as np
import pytest
from run_files import write_numbers, write_run

from tfagents_system.comparison.compare import compare, compare_scores, verdict
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths


def test_scores_that_are_apart_are_more_than_noise():
    result = compare_scores(np.array([10.0, 11, 12, 13]), np.array([1.0, 2, 3, 4]))
    assert result.means == ((11 + 12) / 2, (2 + 3) / 2)
    assert result.difference == 11.5 - 2.5
    assert 10 - 4 <= result.difference_interval[0] < 9 < result.difference_interval[1] <= 13 - 1
    assert (result.probability, *result.probability_interval) == (1, 1, 1)
    assert verdict(result, "a", "b") == "a is better than b, by more than the noise between seeds."
    other = compare_scores(np.array([1.0, 2, 3, 4]), np.array([10.0, 11, 12, 13]))
    assert verdict(other, "a", "b").startswith("b is better than a")


def test_scores_that_overlap_are_noise():
    result = compare_scores(np.array([1.0, 3, 5, 7]), np.array([2.0, 4, 6, 8]))
    assert result.probability == (0 + 1 + 2 + 3) / 16  # each is better than those before it
    assert verdict(result, "a", "b") == "The difference is not more than the noise between seeds."


def test_equal_scores_of_all_seeds_are_noise():
    result = compare_scores(np.full(5, 3.0), np.full(5, 3.0))
    assert (result.difference, result.probability) == (0, 0.5)
    assert result.is_noise


@pytest.mark.parametrize("num_others", [3, 5, 50])
def test_three_seeds_cannot_tell_however_many_the_others_are(num_others):
    result = compare_scores(np.array([10.0, 11, 12]), np.linspace(1, 2, num_others))
    assert result.is_noise
    words = f"Too few seeds to tell: 3 and {num_others}. It takes 4 of each"
    assert verdict(result, "a", "b").startswith(words)


def test_command_prints_table_verdict_and_settings(tmp_path, capsys):
    for k in range(4):
        write_run(tmp_path / f"a_{k}", [10 + k, 20 + k])
        write_run(tmp_path / f"b_{k}", [k], {"discount": 0.5})
    compare(str(tmp_path / "a_"), str(tmp_path / "b_*"))
    table, (difference, probability, words, *settings) = np.split(
        np.array(capsys.readouterr().out.splitlines(), object), [3]
    )
    assert table[1].split()[:3] == ["a_", "4", f"{15 + (1 + 2) / 2:g}"]
    assert table[2].split()[:3] == ["b_*", "4", f"{(1 + 2) / 2:g}"]
    assert table[1].split()[-1] == "200"
    assert difference.startswith("difference 15, [")
    assert probability == "probability that a seed of a_ is better 100%, -"
    assert words == "a_ is better than b_*, by more than the noise between seeds."
    assert settings == ["They differ in:", "  discount: 0.99; 0.5"]

    compare(str(tmp_path / "a_0"), str(tmp_path / "a_1"), num_evaluations=2)
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[:4] == ["a_0", "1", f"{(-7 + 10 + 20) / 3:.6g}", "-"]
    assert out.endswith("They do not differ in any setting.\n")


def test_numbers_of_log_info_that_all_seeds_have_are_compared(tmp_path, capsys):
    for k in range(4):
        first = write_run(tmp_path / f"a_{k}", [10 + k])
        write_numbers(first, "eval", 0, [(200, "distance_mean", k), (200, "force_max", 1)])
        second = write_run(tmp_path / f"b_{k}", [k])
        write_numbers(second, "eval", 0, [(100, "force_max", 1), (200, "distance_mean", 10 + k)])
    compare(str(tmp_path / "a_"), str(tmp_path / "b_"))
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("numbers of log_info: a_ and b_")
    mean = (1 + 2) / 2
    assert lines[begin + 1].startswith(f"  distance_mean: {mean:g} [")
    assert f" and {10 + mean:g} [" in lines[begin + 1]
    assert "; difference -10 [" in lines[begin + 1]
    assert "force_max" not in lines[begin + 2]


def test_success_rates_are_compared_if_all_seeds_have_one(tmp_path, capsys):
    for k in range(4):
        write_run(tmp_path / f"a_{k}", [10, 10, 10, 10], successes=[1, 1, 1, int(k > 1)])
        write_run(tmp_path / f"b_{k}", [9, 9, 9, 9], successes=[1, 0, 0, 0])
        write_run(tmp_path / f"c_{k}", [9])
    compare(str(tmp_path / "a_"), str(tmp_path / "b_"))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "success" in line)
    mean = (3 / 4 + 4 / 4) / 2  # interquartile, of 3/4, 3/4, 4/4, 4/4
    assert line.startswith(f"success rate of a_ and b_: {mean:g} [0.75, 1] and {1 / 4:g}; ")
    assert f"; difference {mean - 1 / 4:g} [" in line
    compare(str(tmp_path / "a_"), str(tmp_path / "c_"))
    assert "success" not in capsys.readouterr().out


def test_experiment_that_has_not_been_evaluated_is_refused(tmp_path):
    ExperimentPaths(tmp_path / "a").episodes.mkdir(parents=True)
    write_run(tmp_path / "b", [1])
    with pytest.raises(ConfigError, match="a has no evaluation yet"):
        compare(str(tmp_path / "a"), str(tmp_path / "b"))


def test_an_experiment_that_is_in_both_groups_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a_1", "a_b_1"):
        write_run(tmp_path / name, [1])
    with pytest.raises(ConfigError, match="a_ and a_b_1 both have a_b_1, which would count twice"):
        compare("a_", str(tmp_path / "a_b_1"))
