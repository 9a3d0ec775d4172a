import json

import hypothesis
import pytest
from hypothesis import strategies as st

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.provenance import read_provenance, record_arithmetic

KEYS = ("seed", "gin_bindings", "params_dir", "started_at")
GOOD = {"seed": 7, "gin_bindings": ["A.b = 1"], "params_dir": "/home/me", "started_at": ["now"]}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "provenance.json"


def test_only_what_is_asked_for_is_read_and_needed(tmp_path):
    path = tmp_path / "provenance.json"
    assert read_provenance(path, KEYS) is None
    path.write_text(json.dumps(GOOD | {"host": "h"}))
    assert read_provenance(path, KEYS) == GOOD
    path.write_text('{"seed": 0}')
    assert read_provenance(path, ["seed"]) == {"seed": 0}


def test_the_arithmetic_is_added_to_what_the_launcher_has_written(tmp_path):
    path = tmp_path / "provenance.json"
    path.write_text(json.dumps(GOOD | {"arithmetic": "float32"}))
    record_arithmetic(path, "int16")
    assert json.loads(path.read_text()) == GOOD | {"arithmetic": "int16"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": -1}, "seed is not an integer from 0 to 4294967295"),
        ({"seed": True}, "seed is not an integer from 0 to 4294967295"),
        ({"seed": 2**32}, "seed is not an integer from 0 to 4294967295"),
        ({"gin_bindings": "A.b = 1"}, "gin_bindings is not a list of strings"),
        ({"gin_bindings": [1]}, "gin_bindings is not a list of strings"),
        ({"params_dir": None}, "params_dir is not a string"),
        ({"params_dir": "a\0b"}, "params_dir is not a string"),
        ({"started_at": {}}, "started_at is not a list of strings"),
    ],
)
def test_value_of_another_kind_names_file_and_key(file, change, reason):
    file.write_text(json.dumps(GOOD | change))
    with pytest.raises(ConfigError) as error:
        read_provenance(file, KEYS)
    assert str(error.value).startswith(f"{file}: damaged ({reason}). Repair it, or start again: ")


@pytest.mark.parametrize("key", KEYS)
def test_missing_key_is_named(file, key):
    file.write_text(json.dumps({name: value for name, value in GOOD.items() if name != key}))
    with pytest.raises(ConfigError, match=f"damaged .it has no {key}."):
        read_provenance(file, KEYS)


@pytest.mark.fault_row("malformed input")
@hypothesis.given(
    st.binary()
    | st.sampled_from([b"[" * 100_000, b"9" * 5000, b"null"])
    | st.dictionaries(
        st.sampled_from(KEYS), st.none() | st.integers() | st.floats() | st.lists(st.text())
    ).map(lambda changes: json.dumps(GOOD | changes).encode())
)
@hypothesis.settings(max_examples=150)
def test_any_content_is_read_or_an_error_that_names_the_file(file, content):
    file.write_bytes(content)
    try:
        saved = read_provenance(file, KEYS)
    except ConfigError as error:
        assert str(error).startswith(f"{file}: damaged (")
    else:
        assert saved is not None and saved.keys() == set(KEYS)
