import numpy as np
import pytest
from scipy import stats

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.settings.samplers import Constant

NUM_DRAWS = 20_000
LEAST_P = 1e-4  # with fixed seeds, so a draw that passes once always passes


def values_of(entry, num_draws=NUM_DRAWS, name="mass"):
    """The values that as many episodes with different seeds get."""
    curriculum = Curriculum.from_config({name: entry}, "config.json")
    return np.array([curriculum.state_at(0, seed=seed)[name] for seed in range(num_draws)])


def p_value(values, bounds, shares):
    """Of the chi-squared test that `values` fall between `bounds` with these probabilities."""
    counts, _ = np.histogram(values, bounds)
    assert counts.sum() == len(values)
    return stats.chisquare(counts, np.array(shares) * len(values)).pvalue


def test_a_uniform_sampler_fills_its_interval():
    values = values_of({"sampler": "uniform", "low": -1.0, "high": 3.0})
    assert p_value(values, np.linspace(-1, 3, 21), [1 / 20] * 20) > LEAST_P


def test_a_gaussian_sampler_has_its_mean_and_standard_deviation():
    values = values_of({"sampler": "gaussian", "mean": 2.0, "std": 0.5})
    inner = np.linspace(1, 3, 11)
    shares = np.diff(stats.norm.cdf([-np.inf, *inner, np.inf], 2.0, 0.5))
    assert p_value(values, [-100, *inner, 100], shares) > LEAST_P


def test_intervals_are_drawn_by_their_widths():
    intervals = [[0.0, 1.0], [5.0, 5.5], [10.0, 12.0]]  # 1 + 0.5 + 2 = 3.5
    values = values_of({"sampler": "multi_range", "intervals": intervals})
    bounds = [0, 0.5, 1, 5, 5.25, 5.5, 10, 11, 12]
    shares = [0.5 / 3.5, 0.5 / 3.5, 0, 0.25 / 3.5, 0.25 / 3.5, 0, 1 / 3.5, 1 / 3.5]
    counts, _ = np.histogram(values, bounds)
    assert counts[2] == counts[5] == 0 and counts.sum() == len(values)
    filled = [index for index, share in enumerate(shares) if share]
    expected = np.array(shares)[filled] * len(values)
    assert stats.chisquare(counts[filled], expected).pvalue > LEAST_P


def test_an_interval_without_width_is_its_bound():
    entry = {"sampler": "multi_range", "intervals": [[1.0, 1.0], [2.0, 2.0]]}
    assert set(values_of(entry, 50)) == {1.0, 2.0}
    assert set(values_of({"sampler": "uniform", "low": 4, "high": 4}, 5)) == {4.0}


def test_a_constant_keeps_its_type():
    value = values_of({"sampler": "constant", "value": 3}, 2)
    assert value.tolist() == [3, 3] and value.dtype.kind == "i"


def test_a_seed_repeats_and_parameters_have_numbers_of_their_own():
    entry = {"sampler": "uniform", "low": 0, "high": 1}
    both = Curriculum.from_config({"mass": entry, "gap": entry}, "config.json")
    assert both.state_at(0, seed=7) == both.state_at(0, seed=7)
    assert both.state_at(0, seed=7)["mass"] != both.state_at(0, seed=8)["mass"]
    assert both.state_at(0, seed=7)["mass"] != both.state_at(0, seed=7)["gap"]
    alone = Curriculum.from_config({"gap": entry}, "config.json")
    assert alone.state_at(0, seed=7)["gap"] == both.state_at(0, seed=7)["gap"]


def test_a_lesson_may_have_a_sampler():
    until = {"measure": "progress", "threshold": 0.5}
    lessons = [
        {"value": 5, "until": until},
        {"value": {"sampler": "uniform", "low": 0, "high": 1}},
    ]
    curriculum = Curriculum.from_config({"mass": {"lessons": lessons}}, "config.json")
    assert curriculum.state_at(9) == curriculum.state_at(9, [0]) == {"mass": 5}
    assert 0 < curriculum.state_at(9, [1], seed=1)["mass"] < 1
    assert [curriculum.is_over(0, lessons) for lessons in ((), [0], [1])] == [False, False, True]


def test_a_custom_sampler_gets_its_name_keys_and_a_generator():
    def draw(name, settings, generator):
        return len(name) + settings["least"] + generator.integers(0, 2)

    entry = {"sampler": "custom", "least": 10}
    curriculum = Curriculum.from_config({"mass": entry}, "config.json", draw)
    values = {curriculum.state_at(0, seed=seed)["mass"] for seed in range(20)}
    assert values == {4 + 10, 4 + 10 + 1} and {type(value) for value in values} == {int}


@pytest.mark.parametrize("value", ["a", None, np.nan, True, [1.0]])
def test_a_custom_sampler_that_returns_no_number_is_named(value):
    curriculum = Curriculum.from_config({"mass": {"sampler": "custom"}}, "", lambda *_: value)
    with pytest.raises(ConfigError, match="sample_parameter returned .* for mass; expected a nu"):
        curriculum.state_at(0)


def test_without_params_a_custom_sampler_draws_nothing():
    curriculum = Curriculum.from_config({"mass": {"sampler": "custom"}}, "config.json")
    with pytest.raises(ConfigError, match="mass has a custom sampler"):
        curriculum.state_at(0)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"sampler": "unifrom"}, '.sampler is "unifrom". Did you mean uniform?'),
        ({"sampler": ["uniform"]}, '.sampler is ["uniform"].'),
        ({"sampler": "uniform", "low": 1}, " lacks the key 'high'."),
        ({"sampler": "uniform", "low": 2, "high": 1}, " has low 2 above high 1; expected low <="),
        ({"sampler": "uniform", "low": 0, "hihg": 1}, " has the key 'hihg'. Did you mean high?"),
        ({"sampler": "uniform", "low": "0", "high": 1}, '.low is "0"; expected a number from'),
        ({"sampler": "uniform", "low": -1e301, "high": 1}, ".low is -1e+301; expected a number"),
        ({"sampler": "gaussian", "mean": 0, "std": -1}, ".std is -1; expected a number >= 0."),
        ({"sampler": "constant"}, " lacks the key 'value'."),
        ({"sampler": "multi_range", "intervals": []}, ".intervals is []; expected a list of pai"),
        ({"sampler": "multi_range", "intervals": [[1]]}, ".intervals is [[1]]; expected a list"),
        ({"sampler": "multi_range", "intervals": [[0, 1], [3, 2]]}, ".intervals.1 has low 3 above"),
        ({"lesson": []}, " has the key 'lesson'. Did you mean lessons?"),
    ],
)
def test_a_wrong_sampler_is_named_with_file_and_key(entry, expected):
    with pytest.raises(ConfigError) as error:
        Curriculum.from_config({"mass": entry}, "config.json")
    assert str(error.value).startswith(f"config.json: curriculum.mass{expected}")


def test_a_number_is_a_constant_only_as_the_value_of_a_lesson():
    curriculum = Curriculum.from_config({"mass": {"lessons": [{"value": 1.5}]}}, "config.json")
    assert curriculum.courses["mass"][0].value == Constant(1.5)
