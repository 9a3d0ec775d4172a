"""With the real package, offline, whose files are read with its own reader."""

import glob
import json
import pathlib

import pytest
from mirror_fakes import (
    COMMIT,
    delete_a_film_in_time,
    expected_history,
    make_run,
    run_python,
    wandb_history,
    wandb_records,
    wandb_rows,
    write_values,
)

from tfagents_system.core.state.mirror_addresses import mirror_addresses
from tfagents_system.mirror.mirror import Mirror

KILLED_AFTER_A_BATCH = """
import os, pathlib, signal, time
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.mirror.mirror import Mirror

mirror = Mirror(ExperimentPaths(pathlib.Path("logs/tiny")), "wandb")
assert mirror.advance(time.monotonic() + 60) and mirror.num_records == 10
os.kill(os.getpid(), signal.SIGKILL)
"""

TRIED_ONCE = """
import pathlib
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.mirror.mirror import Mirror

mirror = Mirror(ExperimentPaths(pathlib.Path("logs/tiny")), "wandb")
print(mirror.advance(float("inf")), mirror.num_records)
"""


@pytest.fixture
def paths(tmp_path, monkeypatch):
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_DIR", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return make_run(tmp_path)


def hand_over(paths):
    mirror = Mirror(paths, "wandb")
    assert mirror.advance(float("inf")), mirror.problem
    mirror.close(is_finished=True)
    assert mirror.problem is None
    return mirror


def test_offline_files_have_values_settings_and_videos(paths):
    hand_over(paths)

    assert wandb_history(paths) == expected_history(range(0, 50, 10))
    records = wandb_records(paths)
    (run,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert (run.project, run.display_name) == ("sac", "tiny")
    assert sorted(run.tags) == [f"git_commit {COMMIT}", "seed 7"]
    config = {"/".join(item.nested_key) or item.key: json.loads(item.value_json)
              for record in records for item in record.config.update}  # fmt: skip
    assert config["train_batch_size"] == 64
    assert config["config.horizon"] == 5
    (folder,) = (paths.mirrors / "wandb" / "wandb").glob("offline-run-*")
    films = [film.read_bytes() for film in folder.glob("files/media/**/episode_0*.mp4")]
    assert films == [b"a film"]
    assert (folder / "files" / "params.py").read_text() == paths.params.read_text()
    (address,) = mirror_addresses(paths)
    assert folder in map(pathlib.Path, glob.glob(address.removeprefix("wandb: ")))


def test_a_film_that_is_deleted_meanwhile_stops_nothing(paths, monkeypatch):
    delete_a_film_in_time(paths, monkeypatch)
    hand_over(paths)

    assert wandb_history(paths) == expected_history(range(0, 50, 10))
    rows = wandb_rows(paths)
    assert [row["_step"] for row in rows] == [*range(10 + 1)]
    films = [name for row in rows for name in row if name.startswith("videos/")]
    assert {name.split("/")[2] for name in films} == {"episode_1"}


def test_later_start_adds_what_is_new_to_the_same_run(paths):
    hand_over(paths)
    write_values(paths, [50])
    hand_over(paths)

    assert wandb_history(paths) == expected_history(range(0, 60, 10))
    assert [row["_step"] for row in wandb_rows(paths)] == [*range(11)]
    assert len({r.run.run_id for r in wandb_records(paths) if r.run.run_id}) == 1


def test_a_run_with_another_id_gets_everything(paths, monkeypatch):
    hand_over(paths)
    monkeypatch.setenv("WANDB_RUN_ID", "another")
    for steps in ([], [50]):
        write_values(paths, steps)
        hand_over(paths)

    both = expected_history(range(0, 50, 10)) + expected_history(range(0, 60, 10))
    assert wandb_history(paths) == sorted(both)
    ids = [record.run.run_id for record in wandb_records(paths) if record.run.run_id]
    assert (len(ids), ids.count("another")) == (3, 2)


def test_after_a_kill_nothing_is_lost_or_doubled(paths, tmp_path):
    assert run_python(KILLED_AFTER_A_BATCH, tmp_path).returncode == -9
    write_values(paths, [50])
    hand_over(paths)

    assert wandb_history(paths) == expected_history(range(0, 60, 10))
    assert [row["_step"] for row in wandb_rows(paths)] == [*range(11)]


@pytest.mark.system
def test_online_without_a_server_is_a_problem_and_nothing_counts_as_handed_over(paths, tmp_path):
    environ = {"WANDB_MODE": "online", "WANDB_API_KEY": "0" * 40,
               "WANDB_BASE_URL": "http://127.0.0.1:9"}  # fmt: skip

    output = run_python(TRIED_ONCE, tmp_path, **environ).stdout

    assert output.startswith("WARNING: wandb accepts nothing (")
    assert "127.0.0.1:9" in output
    assert output.endswith("\nFalse 0\n")
