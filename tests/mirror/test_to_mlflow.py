"""With the real package, its stores and its server."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
from mirror_fakes import (
    COMMIT,
    delete_a_film_in_time,
    expected_history,
    make_run,
    mlflow_history,
    mlflow_run,
    run_python,
    write_values,
)

from tfagents_system.core.process.ports import free_port
from tfagents_system.core.state.mirror_addresses import mirror_addresses
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import wait_until
from tfagents_system.mirror import mirror as mirror_lib
from tfagents_system.mirror import to_mlflow
from tfagents_system.mirror.mirror import Mirror
from tfagents_system.records.event_log import EventLog

KILLED_BEFORE_IT_KNOWS = """
import os, pathlib, signal
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.mirror import to_mlflow
from tfagents_system.mirror.mirror import Mirror

class Dying(to_mlflow.Mlflow):
    def send(self, *arguments):
        super().send(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

to_mlflow.Mlflow = Dying
Mirror(ExperimentPaths(pathlib.Path("logs/tiny")), "mlflow").advance(float("inf"))
"""


HANDED_OVER = """
import pathlib
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.mirror.mirror import Mirror

mirror = Mirror(ExperimentPaths(pathlib.Path("logs/tiny")), "mlflow")
assert mirror.advance(float("inf")), mirror.problem
mirror.close(is_finished=True)
"""


@pytest.fixture
def paths(tmp_path, monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return make_run(tmp_path)


def own_database(paths):
    return f"sqlite:///{paths.mirrors / 'mlflow' / 'mlflow.db'}"


def hand_over(paths):
    mirror = Mirror(paths, "mlflow")
    assert mirror.advance(float("inf")), mirror.problem
    mirror.close(is_finished=True)
    return mirror


def test_database_has_values_settings_and_videos(paths):
    hand_over(paths)
    write_values(paths, [50])
    hand_over(paths)

    assert mlflow_history(own_database(paths)) == expected_history(range(0, 60, 10))
    run, client = mlflow_run(own_database(paths))
    assert (run.info.run_name, run.info.status) == ("tiny", "FINISHED")
    assert run.data.params["train_batch_size"] == "64"
    assert run.data.params["actor_fc_layer_params"] == "[8, 8]"
    assert run.data.params["config.horizon"] == "5"
    assert run.data.tags["mlflow.source.git.commit"] == COMMIT
    assert run.data.tags["seed"] == "7"
    film = client.download_artifacts(
        run.info.run_id, "videos/policy_checkpoint_0000000040/episode_0.mp4"
    )
    with open(film, "rb") as file:
        assert file.read() == b"a film"
    assert mirror_addresses(paths) == [f"mlflow: {own_database(paths)}"]


def test_a_changed_setting_becomes_a_tag(paths):
    hand_over(paths)
    paths.config.write_text('{"horizon": 6}')
    hand_over(paths)

    run, _ = mlflow_run(own_database(paths))
    assert (run.data.params["config.horizon"], run.data.tags["config.horizon"]) == ("5", "6")


NAMES = ["/joint/effort", "a//b", "x/", "a/./b", "../up", "..up", "..", "", "///", "a b:c",
         "a" * 248 + "/b", "a" * 249 + "/b", "a" * 247 + "/../b", "/" * 300]  # fmt: skip


def test_a_name_that_mlflow_refuses_becomes_one_that_it_accepts(paths):
    names = {name: to_mlflow._allowed(name) for name in NAMES}
    assert [names[name] for name in NAMES[:10]] == [
        "_/joint/effort", "a/_/b", "x/_", "a/_/b", "_/up", "_up", "_", "_", "_/_/_/_", "a b_c"
    ]  # fmt: skip
    assert {len(names[name]) for name in NAMES[10:]} <= {249, 250}
    paths.config.write_text(json.dumps(dict.fromkeys(NAMES, 1)))
    worker = EventLog(paths.train_summaries / "worker_0")
    worker.write(20, {"collect/info//joint/effort_mean": 0.5, **dict.fromkeys(NAMES, 1.0)})
    worker.close()
    hand_over(paths)

    run, _ = mlflow_run(own_database(paths))
    assert run.data.metrics["worker_0/collect/info/_/joint/effort_mean"] == 0.5
    assert run.data.params["config.a/_/b"] == "1"


@pytest.mark.parametrize("change", ["no run", "experiment", "run"])
def test_a_run_that_is_new_in_mlflow_gets_everything(paths, monkeypatch, change):
    hand_over(paths)
    run, client = mlflow_run(own_database(paths))
    if change == "experiment":
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "other")
    else:
        client.delete_run(run.info.run_id)
    if change == "run":
        made = client.create_run(run.info.experiment_id)
        monkeypatch.setenv("MLFLOW_RUN_ID", made.info.run_id)
    experiment = "other" if change == "experiment" else "sac"
    for steps in ([], [50]):
        write_values(paths, steps)
        hand_over(paths)
        history = mlflow_history(own_database(paths), experiment)
        assert history == expected_history([*range(0, 50, 10), *steps])


def test_a_new_database_gets_everything(paths, tmp_path):
    assert run_python(HANDED_OVER, tmp_path).returncode == 0
    (paths.mirrors / "mlflow" / "mlflow.db").unlink()
    hand_over(paths)

    assert mlflow_history(own_database(paths)) == expected_history(range(0, 50, 10))


def test_a_folder_with_another_name_has_its_files_in_it(paths):
    hand_over(paths)
    renamed = ExperimentPaths(paths.root.rename(paths.root.with_name("renamed")))
    film = renamed.videos / "policy_checkpoint_0000000080" / "episode_0.mp4"
    film.parent.mkdir()
    film.write_bytes(b"another film")
    for _ in range(2):
        hand_over(renamed)

    assert not paths.root.exists()
    assert mlflow_history(own_database(renamed)) == expected_history(range(0, 50, 10))
    run, client = mlflow_run(own_database(renamed))
    for step in (40, 80):
        (found,) = client.list_artifacts(
            run.info.run_id, f"videos/policy_checkpoint_00000000{step}"
        )
        assert found.path.endswith("episode_0.mp4")


def test_a_link_to_the_folder_is_no_other_folder(paths):
    hand_over(paths)
    link = paths.root.with_name("link")
    link.symlink_to(paths.root)
    write_values(paths, [50])
    hand_over(ExperimentPaths(link))

    assert mlflow_history(own_database(paths)) == expected_history(range(0, 60, 10))
    _, client = mlflow_run(own_database(paths))
    assert {each.name for each in client.search_experiments()} == {"Default", "sac"}


def test_a_film_that_is_deleted_meanwhile_stops_nothing(paths, monkeypatch):
    delete_a_film_in_time(paths, monkeypatch)
    hand_over(paths)

    assert mlflow_history(own_database(paths)) == expected_history(range(0, 50, 10))
    run, client = mlflow_run(own_database(paths))
    (film,) = client.list_artifacts(run.info.run_id, "videos/policy_checkpoint_0000000040")
    assert film.path.endswith("episode_1.mp4")


def test_a_batch_that_may_have_arrived_before_a_kill_is_not_doubled(paths, tmp_path, monkeypatch):
    """In MLflow's files; its databases would not keep a value twice."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "store"))
    assert run_python(KILLED_BEFORE_IT_KNOWS, tmp_path).returncode == -9
    write_values(paths, [50])
    hand_over(paths)

    assert mlflow_history(str(tmp_path / "store")) == expected_history(range(0, 60, 10))


class Server:
    """MLflow's own server on this machine."""

    def __init__(self, folder):
        self._folder = folder
        self._port = free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        self._process = None

    def start(self):
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port",
                   str(self._port), "--workers", "1", "--backend-store-uri",
                   f"sqlite:///{self._folder}/server.db", "--artifacts-destination",
                   str(self._folder / "artifacts")]  # fmt: skip
        environ = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, env=environ, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        wait_until(self._answers, 200, f"MLflow's server, {self._folder}/server.log")

    def _answers(self):
        try:
            return urllib.request.urlopen(f"{self.uri}/health", timeout=5).status == 200
        except OSError:
            return False

    def send_signal(self, number):
        os.killpg(self._process.pid, number)

    def end(self):
        if self._process is not None:
            self.send_signal(signal.SIGKILL)
            self._process.wait()


@pytest.mark.system
def test_while_the_server_is_away_nothing_is_lost_and_what_is_left_follows(
    paths, tmp_path, monkeypatch, capsys
):
    server = Server(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    monkeypatch.setattr(mirror_lib, "RETRY_SECS", 0.0)
    mirror = Mirror(paths, "mlflow")
    assert not mirror.advance(float("inf"))
    assert "WARNING: mlflow accepts nothing (" in capsys.readouterr().out
    try:
        server.start()
        assert mirror.advance(float("inf")), mirror.problem
        server.send_signal(signal.SIGSTOP)  # it may still get what it does not answer
        write_values(paths, [50])
        with monkeypatch.context() as hurry:
            hurry.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
            hurry.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
            assert not mirror.advance(float("inf"))
        write_values(paths, [60])
        server.send_signal(signal.SIGCONT)
        assert mirror.advance(float("inf")), mirror.problem
        mirror.close(is_finished=True)

        assert mirror.num_records == 10 + 2
        assert mlflow_history(server.uri) == expected_history(range(0, 70, 10))
        run, client = mlflow_run(server.uri)
        films = client.list_artifacts(run.info.run_id, "videos/policy_checkpoint_0000000040")
        assert [film.file_size for film in films] == [len(b"a film")]
        page = f"{server.uri}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
        assert mirror_addresses(paths) == [f"mlflow: {page}"]
    finally:
        server.end()


def test_passwords_of_the_server_are_neither_written_nor_shown(tmp_path, monkeypatch, capsys):
    address = f"127.0.0.1:{free_port()}"  # where nothing listens
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:sec/ret@{address}")
    paths = make_run(tmp_path)
    mirror = Mirror(paths, "mlflow")
    assert not mirror.advance(float("inf"))
    progress = paths.mirrors / "mlflow" / "progress.jsonl"
    assert f'"destination": "http://{address}"' in progress.read_text()
    out, err = capsys.readouterr()
    assert "mlflow accepts nothing" in out
    for text in (progress.read_text(), mirror.problem, out, err):
        assert "sec/ret" not in text
