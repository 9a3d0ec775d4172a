import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.gin_bindings import parse_assignment
from tfagents_system.core.settings.hyperparameters import check_hyperparameter, hyperparameters
from tfagents_system.core.settings.stop_condition import is_stop_when, parse_stop_when
from tfagents_system.core.settings.training_settings import (
    TrainingSettings,
    check_training_settings,
)


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("success >= 0.95 for 3 evaluations", [("success", ">=", 0.95, 3)]),
        ("return >= 900", [("return", ">=", 900.0, 1)]),
        ("  return  > -1.5e2 for 1 evaluation ", [("return", ">", -150.0, 1)]),
        ("success>=95%", [("success", ">=", 0.95, 1)]),
        ("success >= 95 %", [("success", ">=", 0.95, 1)]),
        ("time >= 2h", [("time", ">=", 2 * 3600.0, 1)]),
        ("time >= 1.5 d", [("time", ">=", 1.5 * 86400.0, 1)]),
        ("time > 90min", [("time", ">", 90 * 60.0, 1)]),
        ("time >= 30 s", [("time", ">=", 30.0, 1)]),
        (
            "return >= 900 or time >= 2h",
            [("return", ">=", 900.0, 1), ("time", ">=", 2 * 3600.0, 1)],
        ),
        ("distance_last <= 0.02 for 5 evaluations", [("distance_last", "<=", 0.02, 5)]),
        ("force_or_torque_mean < 1", [("force_or_torque_mean", "<", 1.0, 1)]),
    ],
)
def test_conditions_in_words(text, conditions):
    assert [tuple(condition[1:]) for condition in parse_stop_when(text)] == conditions
    assert is_stop_when(text)


def test_a_condition_holds_beyond_its_bound():
    (at_least,), (more,) = parse_stop_when("return >= 900"), parse_stop_when("return > 900")
    assert [at_least.holds(value) for value in (899.9, 900.0)] == [False, True]
    assert [more.holds(value) for value in (900.0, 900.1)] == [False, True]
    assert not at_least.holds(float("nan"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' is not a comparison"),
        ("return", "'return' is not a comparison; write a quantity, one of >= <= > <, a number"),
        ("return == 900", "'return == 900' is not a comparison"),
        ("return >= 900 or", "'' is not a comparison"),
        ("return >= high", "'high' is not a number"),
        ("return >= nan", "'nan' is not a number"),
        ("success >= 95", "a success rate is from 0 to 1, not 95; write 0.95 or 95%"),
        ("success >= 0.9 for 3", "after for comes a number of evaluations"),
        ("success >= 0.9 for 0 evaluations", "after for comes a number of evaluations"),
        ("success >= 0.9 for 3 evaluations and return >= 9", "after for comes a number"),
        ("time >= 2", "'2' is not a time; write a number and one of s, min, h, d"),
        ("time >= 2 hours", "'2 hours' is not a time"),
        ("time <= 2h", "write a time as time >= 2h"),
        ("time >= 2h for 3 evaluations", "write a time as time >= 2h"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_reason(text, reason):
    with pytest.raises(ConfigError) as error:
        check_hyperparameter(hyperparameters(TrainingSettings), "stop_when", text, "--set")
    shown = str(error.value)
    assert shown.startswith(f"--set: stop_when is {text!r} (") and reason in shown
    assert '; expected None or conditions such as "success >= 0.95' in shown


@pytest.mark.parametrize("value", ["success >= 0.95 for 3 evaluations", "time >= 2h"])
def test_a_condition_needs_no_quotation_marks_on_the_command_line(value):
    assert parse_assignment(f"stop_when={value}", "--set").value == value


def check(stop_when, **changes):
    settings = TrainingSettings(stop_when=stop_when, **changes)
    check_training_settings(settings, horizon=10, where="params.py")


def test_a_quantity_is_known_or_recorded_by_log_info():
    check("return >= 1 or success >= 1 or time >= 1h")
    check("distance_mean <= 1", log_info=["distance"])
    check("reward_run_last >= 1", log_info=["reward_*:last"])
    check("a_b_mean >= 1", log_info=["a b"])
    for log_info in ([], ["distance:last"], ["dist"]):
        with pytest.raises(ConfigError, match="but no quantity is called 'distance_mean'"):
            check("distance_mean <= 1", log_info=log_info)
    with pytest.raises(ConfigError, match=r"'succes'; there are return, .*you mean success"):
        check("succes >= 1")


@pytest.mark.parametrize("name", ["eval_period_itrs", "n_eval_episodes"])
def test_a_condition_on_evaluations_needs_evaluations(name):
    check("time >= 1h", **{name: 0})
    with pytest.raises(
        ConfigError, match=f"^params.py: stop_when is 'return >= 1', but {name} is 0"
    ):
        check("return >= 1", **{name: 0})
