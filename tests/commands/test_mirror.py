"""sac mirror, called by hand; beside a run it is tried in tests/system."""

import fcntl

import pytest
from mirror_fakes import expected_history, make_run, mlflow_history

from tfagents_system.commands.mirror import mirror
from tfagents_system.core.errors import EXIT_FINISHED, ConfigError


@pytest.fixture
def paths(tmp_path, monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return make_run(tmp_path)


def test_a_run_that_has_ended_is_handed_over_once(paths, capsys):
    for _ in range(2):
        assert mirror(paths.root, "mlflow", stop=False) == EXIT_FINISHED
        out = capsys.readouterr().out
        assert f"10 records of {paths.root} have been" in out
        database = f"sqlite:///{paths.mirrors / 'mlflow' / 'mlflow.db'}"
        assert out.endswith(f"\nmirrored to mlflow: {database}\n")

    assert mlflow_history(database) == expected_history(range(0, 50, 10))


def test_a_tracker_that_is_away_is_an_error_of_a_run_that_has_ended(paths, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ConfigError, match=r"mlflow does not take all of \S+: \w+: .*127\.0\.0\.1"):
        mirror(paths.root, "mlflow", stop=False)


def test_a_run_that_is_mirrored_already_is_refused(paths):
    folder = paths.mirrors / "mlflow"
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another process mirrors this run"):
            mirror(paths.root, "mlflow", stop=False)
