import json
import pathlib

import hypothesis
import pytest
from hypothesis import strategies as st

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.settings.env_config import load_env_config, validate_env_config


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


def test_a_config_with_the_mark_of_windows_is_read(tmp_path):
    path = tmp_path / "task.json"
    path.write_text('\ufeff{"horizon": 1, "ground": "Eis \u2744"}', encoding="utf-8")
    assert load_env_config(path) == {"horizon": 1, "ground": "Eis \u2744"}


@pytest.mark.parametrize("name", ["minitaur", "pendulum"])
def test_published_configs_are_valid(name):
    root = pathlib.Path(__file__).parents[3]
    assert load_env_config(root / "config" / f"{name}.json")["horizon"] > 0


ALLOWED_HORIZON = "expected an integer from 1 to 1000000000: env steps per episode."
ALLOWED_ENTRY = 'an object {"iters": [...], "range": [lo, hi]}'


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ([1], "the top level is [1]; expected a JSON object with at least the key horizon."),
        ({}, f"the top level lacks the key 'horizon'; {ALLOWED_HORIZON}"),
        ({"horizon": 0}, f"horizon is 0; {ALLOWED_HORIZON}"),
        ({"horizon": -3}, f"horizon is -3; {ALLOWED_HORIZON}"),
        ({"horizon": "200"}, f'horizon is "200"; {ALLOWED_HORIZON}'),
        ({"horizon": True}, f"horizon is true; {ALLOWED_HORIZON}"),
        ({"horizon": 200.5}, f"horizon is 200.5; {ALLOWED_HORIZON}"),
        ({"horizon": 200.0}, f"horizon is 200.0; {ALLOWED_HORIZON}"),
        ({"horizon": None}, f"horizon is null; {ALLOWED_HORIZON}"),
        ({"horizon": 10**9 + 1}, f"horizon is 1000000001; {ALLOWED_HORIZON}"),
        ({"horizon": 10**400}, f"horizon is 1{'0' * 199}...; {ALLOWED_HORIZON}"),
    ],
)
def test_wrong_horizon_names_key_value_and_what_is_allowed(tmp_path, config, expected):
    assert message_for(tmp_path, json.dumps(config)) == expected


@pytest.mark.parametrize(
    ("curriculum", "expected"),
    [
        ([], "curriculum is []; expected an object {name: {"),
        ({"mass": 3}, f"curriculum.mass is 3; expected {ALLOWED_ENTRY} with these two keys"),
        ({"mass": {"iters": [0]}}, "curriculum.mass lacks the key 'range'; expected two numbers"),
        (
            {"mass": {"range": [0, 1]}},
            "curriculum.mass lacks the key 'iters'; expected a list of a",
        ),
        (
            {"mass": {"iters": [0], "range": [0, 1], "rang": [0, 1]}},
            'curriculum.mass is {"iters": [0], "range": [0, 1], "rang": [0, 1]}; expected an obj',
        ),
        ({"mass": {"iters": [], "range": [0, 1]}}, "curriculum.mass.iters is []; expected a lis"),
        ({"mass": {"iters": 5, "range": [0, 1]}}, "curriculum.mass.iters is 5; expected a list"),
        (
            {"mass": {"iters": [0, -1], "range": [0, 1]}},
            "curriculum.mass.iters.1 is -1; expected an integer >= 0.",
        ),
        (
            {"mass": {"iters": [0, 1.5], "range": [0, 1]}},
            "curriculum.mass.iters.1 is 1.5; expected an integer >= 0.",
        ),
        (
            {"mass": {"iters": [0], "range": [1]}},
            "curriculum.mass.range is [1]; expected two num",
        ),
        (
            {"mass": {"iters": [0], "range": [0, 1, 2]}},
            "curriculum.mass.range is [0, 1, 2]; expected",
        ),
        (
            {"mass": {"iters": [0], "range": ["a", 1]}},
            'curriculum.mass.range.0 is "a"; expected a number from -1e300 to 1e300.',
        ),
        (
            {"mass": {"iters": [0, 1], "range": [-1.7e308, 1.7e308]}},
            "curriculum.mass.range.0 is -1.7e+308; expected a number from -1e300 to 1e300.",
        ),
        (
            {"mass": {"iters": [0, 1], "range": [0, 10**400]}},
            "curriculum.mass.range.1 is 1000",
        ),
        (
            {"mass": {"iters": [9, 3], "range": [0, 1]}},
            "curriculum.mass.iters is [9, 3]; expected strictly ascending iterations.",
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
        (
            '{"horizon": 1, "x": ' + "[" * 100 + "]" * 100 + "}",
            "not valid JSON: nested deeper than",
        ),
        ('{"horizon": 1, "\\ud800": 2}', "not valid JSON: 'utf-8' codec can't encode"),
        ('{"horizon": ' + "9" * 5000 + "}", "not valid JSON: Exceeds the limit"),
        ('{"horizon": 1}\0', "not valid JSON: Extra data"),
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
    assert "x" * 199 + "...; expected" in str(error.value)
    assert len(str(error.value)) < 400


def test_nesting_up_to_the_limit_is_allowed(tmp_path):
    path = tmp_path / "task.json"
    path.write_text('{"horizon": 1, "x": ' + "[" * 99 + "]" * 99 + "}")
    assert load_env_config(path)["horizon"] == 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([10**400, -(10**400), 1.7e308, -1.7e308, 2**63]),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(
        st.sampled_from(["horizon", "curriculum", "iters", "range", "mass", "\ud800", ""]),
        values, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
RAMPS = st.fixed_dictionaries(
    {"iters": JSON_VALUES | st.lists(st.integers(0), unique=True, max_size=4).map(sorted),
     "range": JSON_VALUES | st.lists(st.floats() | st.integers(), min_size=2, max_size=2)}
)  # fmt: skip
NEARLY_VALID = st.fixed_dictionaries(
    {"horizon": st.integers(1, 10), "curriculum": st.dictionaries(st.text(), RAMPS, max_size=3)}
)
TEXTS = st.binary() | st.text().map(lambda text: text.encode(errors="surrogatepass"))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("configs") / "task.json"


@pytest.mark.fault_row("malformed input")
@hypothesis.given(
    TEXTS | (JSON_VALUES | NEARLY_VALID).map(lambda value: json.dumps(value).encode())
)
@hypothesis.settings(max_examples=200)
def test_any_content_is_a_usable_config_or_an_error_that_names_the_file(file, content):
    file.write_bytes(content)
    try:
        config = load_env_config(file)
    except ConfigError as error:
        assert str(error).startswith(f"{file}: ")
        return
    assert 1 <= config["horizon"] <= 10**9
    state = Curriculum.from_config(config.get("curriculum", {}), "").state_at(10**12)
    assert all(-1e300 <= value <= 1e300 for value in state.values())
