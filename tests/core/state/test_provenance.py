import json

import hypothesis
import pytest
from hypothesis import strategies as st

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.provenance import StartRecord, read_provenance

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


@pytest.fixture
def resumed(tmp_path):
    """A finished experiment whose second start, until iteration 20, is prepared."""
    paths = ExperimentPaths(tmp_path)
    paths.running.mkdir()
    paths.provenance.write_text(json.dumps(GOOD | {"arithmetic": "float32"}))
    later = GOOD | {"started_at": ["now", "then"], "host": "h"}
    paths.running_provenance.write_text(json.dumps(later))
    paths.git_diff.write_text("of the first start")
    paths.finished.touch()
    paths.extends.touch()
    return paths


def record_of(paths, *bindings):
    return StartRecord(paths, ["A.b = 1", *bindings], "int16", Fence.of_core(paths, 0))


def test_the_arithmetic_is_added_to_what_the_launcher_has_written(tmp_path):
    paths = ExperimentPaths(tmp_path)
    paths.provenance.write_text(json.dumps(GOOD | {"arithmetic": "float32"}))
    record_of(paths).has_trained()
    assert json.loads(paths.provenance.read_text()) == GOOD | {"arithmetic": "int16"}


def test_a_start_that_has_trained_belongs_to_the_run_with_its_bindings_and_its_end(resumed):
    resumed.running_git_diff.write_text("of the second start")
    for _ in range(2):  # the learner may start again meanwhile
        record_of(resumed, "C.d = 2").has_trained()
        assert json.loads(resumed.provenance.read_text()) == GOOD | {
            "started_at": ["now", "then"], "host": "h", "arithmetic": "int16",
            "gin_bindings": ["A.b = 1", "C.d = 2"],
        }  # fmt: skip
        assert resumed.git_diff.read_text() == "of the second start"
        assert not resumed.finished.exists() and not resumed.extends.exists()


def test_a_start_that_ends_before_it_has_trained_leaves_bindings_and_end_as_they_were(resumed):
    record_of(resumed, "C.d = 2").is_saved()
    assert json.loads(resumed.provenance.read_text()) == GOOD | {
        "started_at": ["now", "then"], "host": "h", "arithmetic": "int16",
    }  # fmt: skip
    assert not resumed.git_diff.exists()  # that start had no changes
    assert resumed.finished.exists()


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
