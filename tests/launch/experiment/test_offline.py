import json

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import Settings
from tfagents_system.launch.experiment.offline import without_collection
from tfagents_system.launch.local.plan import everything

PARAMS = """
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    demonstrations = "demos"
    demonstration_share = {share}

    def env_ctor(self):
        raise AssertionError("the launcher runs no params file")
"""
OFFLINE = "TrainParams.demonstration_share = 1.0"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.py").write_text(PARAMS.format(share="0.5"))
    return tmp_path


def settings(**variables):
    required = {"EXP_NAME": "e", "PARAMS": "params.py", "CONFIG": "config.json"}
    return Settings.from_environ({f"SAC_{k}": v for k, v in (required | variables).items()})


def programs(settings, num_cpus=8):
    """Returns the CPUs of each program of a run on one host."""
    planned = everything(without_collection(settings), settings.exp_dir, num_cpus)
    return {program.name: program.num_cpus for program in planned}


def test_an_offline_run_has_evaluators_and_no_workers(folder, capsys):
    expected = {"replay": 1, "learner": 2, "evaluator_0": 1}
    assert programs(settings(GIN_BINDINGS=OFFLINE)) == expected
    two = settings(GIN_BINDINGS=OFFLINE, EVAL_WORKERS="2")
    assert programs(two) == expected | {"evaluator_1": 1}
    assert capsys.readouterr().out == ""
    assert programs(settings(GIN_BINDINGS=OFFLINE, NUM_COLLECT_WORKERS="4")) == expected
    assert "SAC_NUM_COLLECT_WORKERS is 4; this run trains offline" in capsys.readouterr().out


@pytest.mark.parametrize("share, is_offline", [("1", True), ("1.0", True), ("0.5", False),
                                               ("2 * 0.5", False)])  # fmt: skip
def test_a_number_in_the_params_file_says_so_an_expression_does_not(folder, share, is_offline):
    (folder / "params.py").write_text(PARAMS.format(share=share))
    assert ("worker_0" not in programs(settings())) == is_offline


def test_the_last_binding_counts(folder):
    online = "TrainParams.demonstration_share = 0.25"
    assert "worker_0" in programs(settings(GIN_BINDINGS=f"{OFFLINE}; {online}"))
    assert "worker_0" not in programs(settings(GIN_BINDINGS=f"{online}; {OFFLINE}"))


def test_a_resumed_run_stays_what_it_was_unless_it_is_told_otherwise(folder):
    run = folder / "logs/e"
    run.mkdir(parents=True)
    (run / "params.py").write_text(PARAMS.format(share="0.5"))
    (run / "config.json").write_text("{}")
    saved = {"seed": 1, "gin_bindings": [OFFLINE], "params_dir": str(folder),
             "params_name": "params.py", "started_at": [], "initialized_from": None}  # fmt: skip
    (run / "provenance.json").write_text(json.dumps(saved))
    assert "worker_0" not in programs(settings())
    assert "worker_0" in programs(settings(GIN_BINDINGS="TrainParams.demonstration_share = 0.5"))


def test_a_deterministic_run_cannot_be_offline(folder):
    with pytest.raises(ConfigError, match="SAC_DETERMINISTIC is 1 and demonstration_share is 1"):
        without_collection(settings(GIN_BINDINGS=OFFLINE, DETERMINISTIC="1"))


def test_a_params_file_that_is_no_python_is_named(folder):
    (folder / "params.py").write_text("class TrainParams(:")
    with pytest.raises(ConfigError, match=r"params\.py:1: not valid Python"):
        without_collection(settings())
