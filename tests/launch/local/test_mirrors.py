"""The programs beside a run; what they do is tried in tests/mirror and tests/system."""

import importlib.util

import pytest

from tfagents_system.core.checkout import PROJECT
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.local import mirrors
from tfagents_system.launch.local.prepare import prepare


@pytest.fixture
def missing(monkeypatch):
    """Names of packages, to be added to, that are not installed."""
    names, find_spec = set(), importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in names else find_spec(name)
    )
    return names


def settings_of(**variables):
    return Settings.from_environ({
        "SAC_EXP_NAME": "e", "SAC_PARAMS": str(PROJECT / "tfagents_system/pendulum_params.py"),
        "SAC_CONFIG": str(PROJECT / "config/pendulum.json"), **variables,
    })  # fmt: skip


@pytest.mark.parametrize("tracker", mirrors.TRACKERS)
def test_missing_package_is_refused_before_anything_is_written(
    tracker, missing, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    missing.add(tracker)

    with pytest.raises(ConfigError) as error:
        prepare(settings_of(**{f"SAC_{tracker.upper()}": "1"}), lambda: [])

    assert str(error.value).startswith(f"To mirror a run to {tracker}, {tracker} must be installed")
    assert str(error.value).endswith(f"Call ./setup.sh --with {tracker}")
    assert list(tmp_path.iterdir()) == []


def test_only_mlflows_own_database_needs_more_than_mlflow(missing):
    missing.update(("sqlalchemy", "alembic"))
    with pytest.raises(ConfigError, match="sqlalchemy and alembic must be installed"):
        mirrors.check_has_package("mlflow", {})
    mirrors.check_has_package("mlflow", {"MLFLOW_TRACKING_URI": "http://here:5000"})


@pytest.mark.parametrize("mode", ["disabled", "dryrun", ""])
def test_an_unknown_mode_of_wandb_is_refused_before_anything_is_written(
    mode, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", mode)

    with pytest.raises(ConfigError) as error:
        prepare(settings_of(SAC_WANDB="1"), lambda: [])

    assert str(error.value).startswith(
        f"The variable WANDB_MODE is {mode!r}; expected online or offline"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("environ", [{}, {"WANDB_MODE": "online"}, {"WANDB_MODE": "offline"}])
def test_modes_of_wandb_with_a_mirror_are_accepted(environ):
    mirrors.check_has_package("wandb", environ)
    mirrors.check_has_package("mlflow", {"WANDB_MODE": "disabled"})


def test_a_run_has_a_program_for_each_tracker_that_was_asked_for(tmp_path):
    paths = ExperimentPaths(tmp_path)
    assert mirrors.services(settings_of(SAC_WANDB="auto", SAC_MLFLOW="0"), paths) == []

    both = mirrors.services(settings_of(SAC_WANDB="1", SAC_MLFLOW="1"), paths)

    assert [service.name for service in both] == ["mirror-wandb", "mirror-mlflow"]
    assert [service.argv[:3] for service in both] == [("nice", "-n", "19")] * 2
    assert both[0].argv[-4:] == ("mirror", str(tmp_path), "--to", "wandb")
