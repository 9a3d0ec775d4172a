"""A run that is mirrored while it trains, whatever happens to the trackers and to the mirrors."""

import os
import signal
import socket

import pytest
from mirror_fakes import in_tensorboard, mlflow_history, mlflow_run, wandb_history, wandb_rows
from system.tiny_run import TinyRun

pytestmark = pytest.mark.system


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("WANDB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    run = TinyRun(tmp_path, more_params="\n    num_iter = 40\n")
    run.set_pace(0.1)  # 40 s or more
    yield run
    run.end()


def test_trackers_have_what_tensorboard_has_after_kills_and_a_resume(run):
    asked_for = {"SAC_WANDB": "1", "SAC_MLFLOW": "1"}
    first = run.start(**asked_for)
    for tracker in ("wandb", "mlflow"):
        run.wait_for(lambda: run.status(f"mirror-{tracker}").get("records", 0) >= 3, 120,  # noqa: B023
                     f"records in {tracker}")  # fmt: skip
        os.kill(run.status(f"mirror-{tracker}")["pid"], signal.SIGKILL)
    os.kill(first.pid, signal.SIGTERM)
    assert run.await_end(first, 120) == 143

    run.set_pace(0.02)
    assert run.await_end(run.start(**asked_for), 240) == 0

    expected = in_tensorboard(run.paths)
    database = f"sqlite:///{run.paths.mirrors / 'mlflow' / 'mlflow.db'}"
    assert mlflow_history(database) == expected
    assert wandb_history(run.paths) == expected
    assert {name for name, _, _ in expected} >= {"learner/loss", "eval/mean_return"}
    steps = [row["_step"] for row in wandb_rows(run.paths)]
    assert steps == [*range(len(steps))]
    assert mlflow_run(database)[0].info.status == "FINISHED"
    assert run.status("mirror-mlflow")["records"] == run.status("mirror-wandb")["records"]


def test_a_run_trains_to_its_end_although_a_tracker_does_not_answer(run):
    shown = run.folder / "output_0.txt"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        in_a_hurry = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "2", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
        started = run.start(SAC_MLFLOW="1", MLFLOW_TRACKING_URI=uri, **in_a_hurry)
        run.wait_for(lambda: "mirror-mlflow IS BEHIND: " in shown.read_text(), 120, "the warning")
        run.set_pace(0)
        code = run.await_end(started, 240)

        silent.settimeout(10)
        silent.accept()[0].close()  # it was reached, although the run has a private network
    assert code == 0
    assert "WARNING: mlflow accepts nothing (" in run.paths.stdout("mirror-mlflow").read_text()
    assert run.status("mirror-mlflow")["records"] == 0
