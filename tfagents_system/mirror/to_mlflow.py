"""Mirrors records to MLflow: a database in the run's folder, or MLFLOW_TRACKING_URI."""

import json
import logging
import os
import pathlib
import re
from collections.abc import Sequence

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # the import reads it

from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Metric, Param, RunTag  # noqa: E402

from tfagents_system.core.display import without_secrets  # noqa: E402
from tfagents_system.mirror.progress import Progress  # noqa: E402
from tfagents_system.mirror.records import Description, Record, Values, Video  # noqa: E402

MOST_METRICS, MOST_PARAMS, MOST_CHARACTERS = 1000, 100, 500  # accepted by every server
MOST_NAME_CHARACTERS = 250  # likewise
ID_TAG = "sac.mirror"
OWN_DATABASE = "mlflow.db"  # in the mirror's folder
# Variables that the package reads at each request; by default it retries for minutes.
_REQUESTS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}


def destination() -> str:
    """Returns the destination from the package's variables, without a password."""
    server = without_secrets(_server()) or OWN_DATABASE
    return " ".join(filter(None, (server, os.environ.get("MLFLOW_RUN_ID"))))


def _server() -> str:
    return os.environ.get("MLFLOW_TRACKING_URI", "")


class Mlflow:
    """A run of MLflow, found again by a tag. The server confirms each batch."""

    num_arrived = None  # None: all batches but perhaps the last

    def __init__(self, folder: pathlib.Path, progress: Progress, description: Description):
        """Connects; `folder` is the mirror's own.

        Raises:
          Exception: If the server cannot be reached; of many types.
        """
        for library in ("alembic", "mlflow"):  # they log how they make a database
            logging.getLogger(library).setLevel(logging.WARNING)
        for name, value in _REQUESTS.items():
            os.environ.setdefault(name, value)
        self._is_own = not _server()
        own_uri = f"sqlite:///{folder.absolute() / OWN_DATABASE}"
        self._client = MlflowClient(_server() or own_uri)
        self._run_id = self._find_run(folder, progress, description)
        self.address = self._address(_server() or own_uri)
        self._client.update_run(self._run_id, status="RUNNING")
        self.describe(description)

    def _address(self, uri: str) -> str:
        """Returns the run's page on a server; for a database or folder, the URI for `mlflow ui`."""
        if not uri.startswith(("http://", "https://")):
            return uri
        experiment = self._client.get_run(self._run_id).info.experiment_id
        return f"{uri.rstrip('/')}/#/experiments/{experiment}/runs/{self._run_id}"

    def _find_run(self, folder: pathlib.Path, progress: Progress, description: Description) -> str:
        """Returns the id of the run; if it is missing, creates it and begins the progress anew."""
        if given := os.environ.get("MLFLOW_RUN_ID"):
            return given
        experiment = self._find_experiment(folder / "artifacts")
        found = self._client.search_runs([experiment], f"tags.`{ID_TAG}` = '{progress.run_id}'")
        if found:
            return found[0].info.run_id
        progress.begin_anew()  # before the run exists, because a crash may come in between
        made = self._client.create_run(
            experiment, tags={ID_TAG: progress.run_id}, run_name=description.name
        )
        return made.info.run_id

    def _find_experiment(self, artifacts: pathlib.Path) -> str:
        """Returns the id of MLflow's experiment, which is created if it is missing.

        Args:
          artifacts: Folder of its files with the own database; a server knows where files go.
        """
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "sac")
        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            here = {path.as_uri() for path in (artifacts.absolute(), artifacts.resolve())}
            if not self._is_own or experiment.artifact_location in here:
                return experiment.experiment_id
            # The folder has been moved or copied; the location of an experiment never changes.
            earlier = experiment.experiment_id
            self._client.rename_experiment(earlier, f"{name} {earlier}")
        uri = artifacts.resolve().as_uri() if self._is_own else None
        return self._client.create_experiment(name, uri)

    def describe(self, description: Description) -> None:
        """Adds settings and files; MLflow's parameters never change, so changes become tags."""
        settings = {_allowed(name): _short(value) for name, value in description.settings.items()}
        known = self._client.get_run(self._run_id).data.params
        tags = description.tags | {
            name: value for name, value in settings.items() if known.get(name, value) != value
        }
        if commit := description.git_hash:
            tags["mlflow.source.git.commit"] = commit
        new = [Param(name, value) for name, value in settings.items() if name not in known]
        for k in range(0, len(new), MOST_PARAMS):
            self._client.log_batch(self._run_id, params=new[k : k + MOST_PARAMS])
        self._client.log_batch(self._run_id, tags=[RunTag(*tag) for tag in tags.items()])
        for file in description.files:
            self._client.log_artifact(self._run_id, str(file))

    def send(self, first: int, records: Sequence[Record], may_be_there: bool) -> None:
        """Sends a batch; if `may_be_there`, skips what has already arrived."""
        metrics = [
            Metric(_allowed(name), value, round(1000 * record.wall_time), record.step)
            for record in records if isinstance(record, Values)
            for name, value in record.scalars.items()
        ]  # fmt: skip
        if may_be_there:
            there = {
                (metric.key, metric.step, metric.timestamp)
                for name in {metric.key for metric in metrics}
                for metric in self._client.get_metric_history(self._run_id, name)
            }
            metrics = [m for m in metrics if (m.key, m.step, m.timestamp) not in there]
        for k in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=metrics[k : k + MOST_METRICS])
        for record in records:
            if isinstance(record, Video):
                folder = str(pathlib.PurePath(record.name).parent)
                self._client.log_artifact(self._run_id, str(record.path), folder)

    def close(self, is_finished: bool) -> None:
        """Marks the run as ended."""
        self._client.set_terminated(self._run_id, "FINISHED" if is_finished else "KILLED")


def _allowed(name: str) -> str:
    """Returns a name like `name` that MLflow accepts: a normal, relative path."""
    cut = _with_parts(re.sub(r"[^\w\-. /]", "_", name))[: MOST_NAME_CHARACTERS - 1]
    return _with_parts(cut)  # the end may have become an empty part


def _with_parts(name: str) -> str:
    """Replaces the parts "", "." and ".." of a path by "_", also two dots at its beginning."""
    return re.sub(r"^\.\.|(?<![^/])\.{0,2}(?![^/])", "_", name)


def _short(value: object) -> str:
    return (value if isinstance(value, str) else json.dumps(value))[:MOST_CHARACTERS]
