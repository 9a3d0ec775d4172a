"""`sac verify` without runs: what it refuses, what it compares. tests/system has a real one."""

import json

import pytest

from tfagents_system.commands import verify as verify_module
from tfagents_system.commands.verify import verify
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.end_request import requested_end
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.episode_rows import COLUMNS

ROWS = ["0,0,0,20,-3.5,20,100.5,", "0,1,50,40,-2.25,20,101.5,", "0,2,100,60,-2,20,102.5,"]


def make(folder, rows=ROWS, **provenance):
    paths = ExperimentPaths(folder)
    paths.episodes.mkdir(parents=True)
    (paths.episodes / "collect_0.csv").write_text("\n".join([",".join(COLUMNS), *rows, ""]))
    record = {"seed": 7, "gin_bindings": ["TrainParams.num_iter = 9"], "params_dir": "/mine",
              "started_at": ["now"], "deterministic": True, "git_hash": "abc"}  # fmt: skip
    paths.provenance.write_text(json.dumps(record | provenance))
    return paths


@pytest.fixture
def second_run(tmp_path, monkeypatch):
    """Stands for the second run, which has the rows and provenance given; returns its variables."""
    monkeypatch.chdir(tmp_path)

    def prepare(code=0, **kwargs):
        environ = {}

        def run_apart(given, watch):
            environ.update(given)
            watch()  # before there is any episode
            again = make(tmp_path / "logs/run_verification", **kwargs)
            again.end_request.parent.mkdir()
            watch()
            environ["END"] = requested_end(again)
            return code

        monkeypatch.setattr(verify_module, "run_apart", run_apart)
        return environ

    return prepare


def test_a_run_that_is_the_same_but_for_its_times_is_verified_and_removed(
    tmp_path, second_run, capsys, monkeypatch
):
    first = make(tmp_path / "logs/run")
    later = [row.replace(".5,", ".75,") if "-3.5" not in row else row for row in ROWS]
    monkeypatch.setenv("SAC_PRIVATE_NETWORK", "0")
    monkeypatch.setenv("SAC_NUM_COLLECT_WORKERS", "3")
    environ = second_run(rows=[*later, "0,5,200,99,0,20,200,"])  # beyond the iterations compared
    assert verify(first.root, num_iter=3) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "The first 3 iterations are the same: 3 episodes."
    )
    assert not (tmp_path / "logs/run_verification").exists()
    assert environ["SAC_SEED"] == "7"
    assert (environ["SAC_PRIVATE_NETWORK"], environ["SAC_NUM_COLLECT_WORKERS"]) == ("0", "1")
    # Learning rates and lessons may depend on num_iter, so the second run has the first one's.
    assert environ["SAC_GIN_BINDINGS"] == "TrainParams.num_iter = 9"
    assert environ["END"] == "3 iterations are to be compared"
    assert environ["SAC_PARAMS"] == str(first.params)  # which knows whose copy it is


def test_the_first_difference_and_what_may_explain_it_are_named(tmp_path, second_run, capsys):
    first = make(tmp_path / "logs/run")
    second_run(rows=[ROWS[0], ROWS[1].replace("-2.25", "-2.26"), ROWS[2]], git_hash="def")
    assert verify(first.root, num_iter=3) == 1
    assert capsys.readouterr().out.splitlines() == [
        "The second run is another one. First difference:",
        "  was collection: worker 0, iteration 1, train_step 50, env_step 40, return -2.25, "
        "length 20",
        "  is  collection: worker 0, iteration 1, train_step 50, env_step 40, return -2.26, "
        "length 20",
        "  git_hash was 'abc', is 'def'",
        "logs/run_verification has the second run.",
    ]
    assert (tmp_path / "logs/run_verification").exists()
    with pytest.raises(ConfigError, match="left of an earlier verification"):
        verify(first.root, num_iter=3)


def test_fewer_episodes_and_a_run_that_fails_are_not_verified(tmp_path, second_run, capsys):
    first = make(tmp_path / "logs/run")
    environ = second_run(rows=ROWS[:2])
    assert verify(first.root, num_iter=3) == 1
    assert environ["END"] is None  # it has not gone further than the iterations compared
    assert "The second run has 2 episodes, the first one had 3." in capsys.readouterr().out


def test_the_exit_code_of_a_second_run_that_does_not_finish_is_passed_on(tmp_path, second_run):
    first = make(tmp_path / "logs/run")
    second_run(code=78)
    assert verify(first.root, num_iter=3) == 78


@pytest.mark.parametrize(
    ("provenance", "num_iter", "message"),
    [
        ({"deterministic": False}, 3, "was not trained with SAC_DETERMINISTIC=1"),
        ({"initialized_from": "logs/first/checkpoints/0000000005"}, 3, "began with the weights of"),
        ({"started_at": ["now", "then"]}, 3, "was started 2 times"),
        ({}, 4, "has not done 4 iterations yet; lower --num_iter"),
    ],
)
def test_runs_that_cannot_be_repeated_are_refused(
    tmp_path, second_run, provenance, num_iter, message
):
    second_run()
    with pytest.raises(ConfigError, match=message):
        verify(make(tmp_path / "logs/run", **provenance).root, num_iter=num_iter)
    assert not (tmp_path / "logs/run_verification").exists()


@pytest.mark.parametrize("text", ["[1, 2]", '{"deterministic": tr', '{"deterministic": true}'])
def test_a_damaged_record_is_refused_in_a_sentence(tmp_path, second_run, text):
    second_run()
    first = make(tmp_path / "logs/run")
    first.provenance.write_text(text)
    with pytest.raises(ConfigError, match="provenance.json: damaged"):
        verify(first.root)


def test_damaged_episodes_are_refused_in_a_sentence(tmp_path, second_run):
    second_run()
    first = make(tmp_path / "logs/run", rows=[*ROWS, "\0\0,\0,3,4,5,6,7,"])
    with pytest.raises(ConfigError, match="collect_0.csv: damaged"):
        verify(first.root, num_iter=3)
