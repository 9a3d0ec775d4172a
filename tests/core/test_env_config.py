import json
import pathlib

import pytest

from tfagents_system.core.env_config import load_env_config, validate_env_config
from tfagents_system.core.errors import ConfigError


def message_for(tmp_path, text):
    path = tmp_path / "task.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_env_config(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_valid_config_is_returned_with_the_users_own_keys(tmp_path):
    config = {
        "horizon": 200,
        "curriculum": {"mass": {"iters": [0, 10], "range": [1.0, 2.0]}},
        "friction": {"floor": [0.5, None], "name": "ice"},
    }
    path = tmp_path / "task.json"
    path.write_text(json.dumps(config))
    assert load_env_config(path) == config


@pytest.mark.parametrize("name", ["minitaur", "pendulum"])
def test_published_configs_are_valid(name):
    root = pathlib.Path(__file__).parents[2]
    assert load_env_config(root / "config" / f"{name}.json")["horizon"] > 0


ALLOWED_HORIZON = "allowed is an integer >= 1: env steps per episode."
ALLOWED_ENTRY = 'an object {"iters": [...], "range": [lo, hi]}'


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ([1], "the top level is [1]; allowed is a JSON object with at least the key horizon."),
        ({}, "'horizon' is a required property at the top level; see config/pendulum.json."),
        ({"horizon": 0}, f"horizon is 0; {ALLOWED_HORIZON}"),
        ({"horizon": -3}, f"horizon is -3; {ALLOWED_HORIZON}"),
        ({"horizon": "200"}, f'horizon is "200"; {ALLOWED_HORIZON}'),
        ({"horizon": True}, f"horizon is true; {ALLOWED_HORIZON}"),
        ({"horizon": 200.5}, f"horizon is 200.5; {ALLOWED_HORIZON}"),
        ({"horizon": 200.0}, f"horizon is 200.0; {ALLOWED_HORIZON}"),
        ({"horizon": None}, f"horizon is null; {ALLOWED_HORIZON}"),
    ],
)
def test_wrong_horizon_names_key_value_and_what_is_allowed(tmp_path, config, expected):
    assert message_for(tmp_path, json.dumps(config)) == expected


@pytest.mark.parametrize(
    ("curriculum", "expected"),
    [
        ([], "curriculum is []; allowed is an object {name: {"),
        ({"mass": 3}, f"curriculum.mass is 3; allowed is {ALLOWED_ENTRY} with these two keys"),
        ({"mass": {"iters": [0]}}, "'range' is a required property at curriculum.mass; see"),
        ({"mass": {"range": [0, 1]}}, "'iters' is a required property at curriculum.mass; see"),
        (
            {"mass": {"iters": [0], "range": [0, 1], "rang": [0, 1]}},
            'curriculum.mass is {"iters": [0], "range": [0, 1], "rang": [0, 1]}; allowed is an obj',
        ),
        ({"mass": {"iters": [], "range": [0, 1]}}, "curriculum.mass.iters is []; allowed is a lis"),
        ({"mass": {"iters": 5, "range": [0, 1]}}, "curriculum.mass.iters is 5; allowed is a list"),
        (
            {"mass": {"iters": [0, -1], "range": [0, 1]}},
            "curriculum.mass.iters.1 is -1; allowed is an integer >= 0.",
        ),
        (
            {"mass": {"iters": [0, 1.5], "range": [0, 1]}},
            "curriculum.mass.iters.1 is 1.5; allowed is an integer >= 0.",
        ),
        (
            {"mass": {"iters": [0], "range": [1]}},
            "curriculum.mass.range is [1]; allowed is two num",
        ),
        (
            {"mass": {"iters": [0], "range": [0, 1, 2]}},
            "curriculum.mass.range is [0, 1, 2]; allowe",
        ),
        (
            {"mass": {"iters": [0], "range": ["a", 1]}},
            'curriculum.mass.range.0 is "a"; allowed is a number.',
        ),
        (
            {"mass": {"iters": [9, 3], "range": [0, 1]}},
            "curriculum.mass.iters is [9, 3]; allowed are strictly ascending iterations.",
        ),
    ],
)
def test_wrong_curriculum_names_key_value_and_what_is_allowed(tmp_path, curriculum, expected):
    text = json.dumps({"horizon": 10, "curriculum": curriculum})
    assert message_for(tmp_path, text).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not valid JSON: Expecting value: line 1 column 1"),
        ("{'horizon': 1}", "not valid JSON: Expecting property name enclosed in double quotes"),
        ('{"horizon": 1, "horizon": 2}', "not valid JSON: the key 'horizon' appears twice in one"),
        ('{"horizon": 1, "x": NaN}', "not valid JSON: NaN is not a JSON number"),
        ('{"horizon": 1, "x": -Infinity}', "not valid JSON: -Infinity is not a JSON number"),
        ('{"horizon": 1, "x": 1e999}', "not valid JSON: 1e999 is too large for a number"),
        ("[" * 100_000, "not valid JSON: "),
    ],
)
def test_text_that_is_not_json_names_the_reason(tmp_path, text, expected):
    assert message_for(tmp_path, text).startswith(expected)


def test_missing_file_names_it_and_the_variable_to_set(tmp_path):
    with pytest.raises(ConfigError, match="absent.json: cannot read the JSON config .*SAC_CONFIG"):
        load_env_config(tmp_path / "absent.json")


def test_file_that_is_not_text_is_a_config_error(tmp_path):
    path = tmp_path / "task.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot read the JSON config"):
        load_env_config(path)


def test_long_value_is_shortened_in_the_message():
    with pytest.raises(ConfigError) as error:
        validate_env_config({"horizon": "x" * 10_000}, "task.json")
    assert "x" * 199 + "...; allowed is" in str(error.value)
    assert len(str(error.value)) < 400
