"""Runs to be mirrored, and what trackers have of them, read with their own packages."""

import json
import os
import pathlib
import subprocess
import sys

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.mirror.records import Source
from tfagents_system.records.event_files import read_events
from tfagents_system.records.event_log import EventLog

PROJECT = pathlib.Path(__file__).parents[1]
SEED, COMMIT = 7, "0123456789abcdef"
SETTINGS = {"train_batch_size": 64, "actor_fc_layer_params": [8, 8]}


def make_run(folder):
    """An experiment of one worker, as its programs write it, with 10 records."""
    paths = ExperimentPaths(folder / "logs" / "tiny")
    for file, value in (
        (paths.config, {"horizon": 5}),
        (paths.provenance, {"seed": SEED, "gin_bindings": ["a.b = 1"], "git_hash": COMMIT}),
        (paths.run_spec, {"seed": SEED, "settings": SETTINGS}),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    paths.params.write_text("class TrainParams: ...\n")
    write_values(paths, range(0, 50, 10))
    worker = EventLog(paths.train_summaries / "worker_0")
    for step in (5, 10, 15):
        worker.write(step, {"collect/episode_return": -step})
    worker.close()
    evaluation = EventLog(paths.eval_summaries)
    evaluation.write(40, {"eval/mean_return": 12.5}, {"eval/returns": [12.0, 13.0]})
    evaluation.close()
    film = paths.videos / "policy_checkpoint_0000000040" / "episode_0.mp4"
    film.parent.mkdir(parents=True)
    film.write_bytes(b"a film")
    return paths


def delete_a_film_in_time(paths, monkeypatch):
    """Deletes the film of `make_run` when the mirror has found it; adds one that comes after it."""
    (film,) = paths.videos.glob("*/episode_0.mp4")
    film.with_name("episode_1.mp4").write_bytes(b"another film")
    next_batch = Source.next_batch

    def next_batch_and_delete(source):
        batch = next_batch(source)
        film.unlink(missing_ok=True)
        return batch

    monkeypatch.setattr(Source, "next_batch", next_batch_and_delete)


def write_values(paths, steps):
    """Writes a record of the learner for each train step."""
    learner = EventLog(paths.train_summaries / "learner")
    for step in steps:
        learner.write(step, {"learner/loss": step / 4, "learner/alpha": 1.0})
    learner.close()


def expected_history(train_steps):
    """(name, step, value) of every value of `make_run` whose learner wrote at `train_steps`."""
    return sorted(
        [("learner/loss", step, step / 4) for step in train_steps]
        + [("learner/alpha", step, 1.0) for step in train_steps]
        + [("worker_0/collect/episode_return", step, -step) for step in (5, 10, 15)]
        + [("eval/mean_return", 40, 12.5)]
    )


def run_python(code, folder, **more_environ):
    """Runs `code` in a process of its own, with a wandb-core of its own, too; returns how."""
    script = f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n{code}"
    environ = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
    return subprocess.run([sys.executable, "-c", script], cwd=folder, env=environ | more_environ,
                          stdout=subprocess.PIPE, text=True, timeout=120)  # fmt: skip


def in_tensorboard(paths, num_workers=1):
    """(name, step, value) of every value that a run has written, with the names of mirrors."""
    folders = {"train/learner": "", "eval": ""} | {
        f"{kind}/worker_{worker}": f"worker_{worker}/"
        for kind in ("train", "eval") for worker in range(num_workers)
    }  # fmt: skip
    return sorted(
        (prefix + entry.tag, event.step, entry.simple_value)
        for folder, prefix in folders.items()
        for file in (paths.root / folder).glob("events.*")
        for event, _ in read_events(file)
        for entry in event.summary.value if entry.HasField("simple_value")
    )  # fmt: skip


def mlflow_run(uri, experiment="sac"):
    """The only run at `uri` in an experiment, and the client."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return run, client


def mlflow_history(uri, experiment="sac"):
    """(name, step, value) of every value in MLflow."""
    run, client = mlflow_run(uri, experiment)
    names = run.data.metrics
    found = [m for name in names for m in client.get_metric_history(run.info.run_id, name)]
    return sorted((metric.key, metric.step, metric.value) for metric in found)


def wandb_records(paths):
    """The records in the offline files of all starts of the mirror, in order."""
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    records = []
    folder = paths.mirrors / "wandb" / "wandb"
    for file in sorted(folder.glob("offline-run-*/run-*.wandb")):
        store = DataStore()
        store.open_for_scan(str(file))
        while data := store.scan_data():
            records.append(Record.FromString(data))
    return records


def wandb_rows(paths):
    """Rows of the history: {name: value}, with W&B's own names, which begin with _."""
    return [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json)
         for item in record.history.item}
        for record in wandb_records(paths) if record.WhichOneof("record_type") == "history"
    ]  # fmt: skip


def wandb_history(paths):
    """(name, step, value) of every value in W&B's files."""
    found = []
    for row in wandb_rows(paths):
        step = next(row[axis] for axis in ("train_step", "worker_0/env_step") if axis in row)
        others = ("_step", "_timestamp", "_runtime")
        found += [(name, step, value) for name, value in row.items()
                  if not name.startswith("videos/") and not name.endswith(others)]  # fmt: skip
    return sorted(found)
