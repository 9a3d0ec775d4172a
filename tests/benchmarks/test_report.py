import json
import math

import pytest

from benchmarks import report
from benchmarks.report import compare, number, peer_wins, table


def records(metric, unit, environment="E", name="learner", **values_by_contestant):
    return [
        {
            "name": name, "metric": metric, "unit": unit, "environment": environment, "cores": 2,
            "contestant": contestant, "repeat": repeat, "value": value, "cpu_model": "a CPU",
            "versions": {"numpy": "1.26.4"},
        }
        for contestant, values in values_by_contestant.items()
        for repeat, value in enumerate(values, 1)
    ]  # fmt: skip


RATES = records("train_steps_per_sec", "1/s", ours=[100, 250, 200], sbx=[260, 240, 250], sb3=[50])


def test_table_states_medians_ranges_ratios_and_the_missed_target():
    rows = table(compare(RATES)).splitlines()[2:]

    assert rows == [
        "| `train_steps_per_sec` | E | 2 | ours | 200 1/s | 100 | 250 | 1.00 | "
        "1.5 x as good as sbx | **no** |",
        "| `train_steps_per_sec` | E | 2 | sbx | 250 1/s | 240 | 260 | 1.25 |  |  |",
        "| `train_steps_per_sec` | E | 2 | sb3 | 50.0 1/s | 50.0 | 50.0 | 0.25 |  |  |",
    ]


def test_peer_wins_says_who_where_and_by_how_much():
    assert peer_wins(compare(RATES)) == [
        "sbx wins learner `train_steps_per_sec` on E, 2 cores: 250 against 200 1/s, "
        "1.25 times as good."
    ]


def test_other_settings_of_ours_are_no_peer_and_have_a_verdict_of_their_own():
    variants = {"ours": [100], "sbx": [90], "ours, no pool": [140]}
    (comparison,) = compare(records("train_steps_per_sec", "1/s", **variants))

    assert comparison.best_peer == "sbx"
    assert not comparison.is_met()
    assert comparison.is_met("ours, no pool")  # 140 > 1.5 x 90
    assert comparison.is_met("sbx") is None
    assert peer_wins([comparison]) == []


def test_the_best_variant_stands_for_ours_where_ours_was_not_measured():
    steps = {"ours, pink": [80], "ours, norm": [60], "sbx crossq": [20, 40, 50], "sbx td7": [90]}
    (comparison,) = compare(records("solved_env_steps", "env steps", "E", "solve", **steps))

    assert comparison.best_peer == "sbx crossq"
    ratios = [row.split(" | ")[7] for row in table([comparison]).splitlines()[2:]]
    assert ratios == ["1.33", "1.00", "0.67", "1.50"]  # 80, 60, 40 and 90 / 60
    assert peer_wins([comparison]) == [
        "sbx crossq wins solve `solved_env_steps` on E, 2 cores: 40.0 against 60.0 env steps, "
        "1.50 times as good."
    ]


def test_variants_alone_have_no_ratio():
    (comparison,) = compare(records("mean_return", "return", **{"ours, a": [1], "ours, b": [2]}))

    assert comparison.ours is None
    assert all(row.endswith(" |  |  |  |") for row in table([comparison]).splitlines()[2:])


def test_less_is_better_where_seconds_count():
    times = records(
        "solved_secs", "s", "Pendulum-v1", "solve", ours=[20, 30, 25], sbx=[50], sb3=[40, 60]
    )
    (comparison,) = compare(times)

    assert comparison.best_peer == "sbx"  # 50 is also the median of 40 and 60: the first counts
    assert comparison.is_met()
    assert peer_wins([comparison]) == []


def test_scaling_is_the_share_of_that_many_times_one_worker():
    groups = [
        records("env_steps_per_sec", "1/s", f"SleepingEnv, {count} workers", "scaling", ours=[rate])
        for count, rate in [(1, 90), (4, 342)]
    ]

    assert report.scaling_shares(compare(sum(groups, []))) == [
        f"4 workers: {100 * 342 / (4 * 90):.0f} % of 4 times one worker."
    ]


def test_seed_noise_tells_a_difference_from_that_between_seeds():
    near = records(
        "mean_return", "return", a=[1.0, 2.0, 3.0, 4.0, 5.0], b=[2.0, 3.0, 1.0, 5.0, 4.0]
    )
    apart = records(
        "mean_return", "return", a=[11.0, 12.0, 13.0, 14.0, 15.0], b=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    (line,) = report.seed_noise(compare(near))
    assert line.startswith('E, "a" less "b": 0, 95 % interval -')
    assert line.endswith("The difference is not more than the noise between seeds.")
    (line,) = report.seed_noise(compare(apart))
    means = (12 + 13 + 14) / 3, (2 + 3 + 4) / 3  # of five, the lowest and the highest are left out
    assert f"{means[0] - means[1]:.0f}, 95 % interval" in line
    assert f"(interquartile means {means[0]:.1f} and {means[1]:.2f})" in line
    assert line.endswith("a is better than b, by more than the noise between seeds.")
    (line,) = report.seed_noise(compare(records("mean_return", "return", a=[1.0], b=[9.0])))
    assert "Too few seeds to tell" in line


def test_a_level_that_was_not_reached_counts_as_infinitely_slow():
    times = records(
        "solved_secs", "s", "Pendulum-v1", "solve", ours=[20, None, 30], sbx=[None, None, 1]
    )
    (comparison,) = compare(times)

    assert comparison.summaries["ours"].median == 30
    assert comparison.summaries["sbx"].median == math.inf
    assert comparison.is_met()
    assert "| sbx | not reached | 1.00 | not reached |  |" in table([comparison])


@pytest.mark.parametrize(("value", "is_met"), [(289, True), (291, False)])
def test_an_absolute_target_of_bytes_is_an_upper_limit(value, is_met):
    on = "100,000 transitions"
    (comparison,) = compare(records("bytes_per_transition", "B", on, name="replay", ours=[value]))

    assert comparison.is_met() is is_met


def test_failed_runs_are_left_out_of_medians_and_listed(tmp_path):
    failure = RATES[0] | {"metric": None, "value": None, "unit": None, "error": "Traceback\nboom"}
    lines = [json.dumps(record) + "\n" for record in [*RATES, failure]]
    (tmp_path / report.RECORDS).write_text("".join(lines))

    report.write(tmp_path)

    text = (tmp_path / report.REPORT).read_text()
    assert "- learner, E, 2 cores, ours, repeat 1: boom" in text
    assert "| ours | 200 1/s | 100 | 250 |" in text
    assert "CPU: a CPU. Versions: numpy 1.26.4." in text
    assert (tmp_path / "benchmarks_speed.png").stat().st_size > 1000


def test_curves_of_several_seeds_are_drawn_and_a_higher_return_is_better(tmp_path):
    seeds = records("mean_return", "return", name="pool", **{"ours": [4, 6], "ours, no pool": [9]})
    seeds += records("mean_return", "return", name="precision", **{"ours, float32": [3]})
    lines = [json.dumps(seed | {"curve": [[1000, 1.0], [2000, seed["value"]]]}) for seed in seeds]
    (tmp_path / report.RECORDS).write_text("\n".join(lines))

    report.write(tmp_path)

    summaries = compare(seeds)[0].summaries
    assert summaries["ours, no pool"].times_as_good(summaries["ours"]) == 9 / 5
    assert (tmp_path / "benchmarks_curves.png").stat().st_size > 1000
    assert "(benchmarks_curves.png)" in (tmp_path / report.REPORT).read_text()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.5, "1.50"), (12345, "12,345"), (None, "not reached")],
)
def test_number_shows_three_significant_digits(value, text):
    assert number(value) == text
