"""Reads a run's records for a tracker: values, videos, settings, files."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfagents_system.comparison.settings_difference import read_settings
from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import is_inside, read_json
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.event_files import read_events

MOST_RECORDS = 500  # records of a batch, plus at most one more event file


@dataclasses.dataclass(frozen=True)
class Values:
    """Values that a program has written to TensorBoard at once."""

    scalars: Mapping[str, float]  # by name
    axis: str  # meaning of `step`: train_step, or env_step for a worker
    step: int
    wall_time: float  # unix, seconds


@dataclasses.dataclass(frozen=True)
class Video:
    """A filmed episode."""

    path: pathlib.Path
    name: str  # videos/<checkpoint>/episode_<k>, or videos/training/<checkpoint>
    step: int  # the policy's train step


Record = Values | Video


@dataclasses.dataclass(frozen=True)
class Batch:
    """Records that are sent together, by their places in the experiment's folder."""

    num_records: int
    events: Mapping[str, Sequence[int]]  # by event file: positions of the first byte and the end
    videos: Mapping[str, int]  # time of the last change of each, in nanoseconds


class Source:
    """Reads the records of a run, each once, while the run writes more."""

    def __init__(self, paths: ExperimentPaths, batches: Sequence[Batch]):
        """Continues after `batches`."""
        self._paths = paths
        self._ends = {file: range_[1] for batch in batches for file, range_ in batch.events.items()}
        self._videos = {name: time for batch in batches for name, time in batch.videos.items()}

    def next_batch(self) -> Batch | None:
        """Returns the next records; None if there are no new ones."""
        events, num_records = {}, 0
        for file in self._event_files():
            name = str(file.relative_to(self._paths.root))
            begin = end = self._ends.get(name, 0)
            if file.stat().st_size > begin and num_records < MOST_RECORDS:
                for event, position in read_events(file, begin):
                    end = position
                    num_records += any(v.HasField("simple_value") for v in event.summary.value)
                    if num_records >= MOST_RECORDS:
                        break
            if end > begin:
                events[name] = (begin, end)
        videos = {}
        for film in sorted(self._paths.videos.glob("*/[!.]*.mp4")):
            if not is_inside(film, self._paths.videos):
                continue
            name, changed = str(film.relative_to(self._paths.root)), film.stat().st_mtime_ns
            if self._videos.get(name) != changed:
                videos[name] = changed
        self._ends |= {name: end for name, (_, end) in events.items()}
        self._videos |= videos
        if num_records + len(videos) == 0:
            return None
        return Batch(num_records + len(videos), events, videos)

    def read(self, batch: Batch) -> list[Record]:
        """Returns the records of a batch, always in the same order."""
        values = [v for name, range_ in batch.events.items() for v in self._values(name, *range_)]
        return [*values, *(self._video(*film) for film in batch.videos.items())]

    def _event_files(self) -> list[pathlib.Path]:
        folders = (self._paths.train_summaries, self._paths.eval_summaries)
        return [
            file
            for folder in folders
            for file in sorted(folder.rglob("events.out.tfevents.*"))
            if is_inside(file, folder)
        ]

    def _values(self, name: str, begin: int, end: int) -> Iterator[Values]:
        """Returns values by tag; adds the worker's name to tags, which all workers share."""
        folder, program = pathlib.Path(name).parts[0], pathlib.Path(name).parts[1:-1]
        is_worker = program not in ((), ("learner",))
        prefix = f"{program[0]}/" if is_worker else ""
        axis = f"{prefix}env_step" if is_worker and folder == "train" else "train_step"
        for event, _ in read_events(self._paths.root / name, begin, end):
            entries = [entry for entry in event.summary.value if entry.HasField("simple_value")]
            scalars = {prefix + entry.tag: entry.simple_value for entry in entries}
            if scalars:
                yield Values(scalars, axis, event.step, event.wall_time)

    def _video(self, name: str, changed: int) -> Record:
        """Returns a film; if it is gone, prints so and keeps its number by an empty record."""
        path = self._paths.root / name
        is_training = path.parent == self._paths.training_videos
        found = re.search("[0-9]+", path.stem if is_training else path.parent.name)
        step = int(found[0]) if found else 0
        if not path.exists():
            print(f"WARNING: {printable(path)} is gone, so it is not mirrored.", flush=True)
            return Values({}, "train_step", step, changed / 1e9)
        return Video(path, str(pathlib.Path(name).with_suffix("")), step)


@dataclasses.dataclass(frozen=True)
class Description:
    """The description of a run."""

    name: str
    settings: Mapping[str, Any]  # hyperparameters, config, seed and the like
    git_hash: str | None
    files: Mapping[pathlib.Path, int]  # the run's files, with the time of the last change

    @property
    def tags(self) -> dict[str, str]:
        """Seed and commit, if known."""
        tags = {"seed": self.settings.get("seed"), "git_commit": self.git_hash}
        return {name: str(value) for name, value in tags.items() if value is not None}


def describe(paths: ExperimentPaths) -> Description:
    """Returns the description of a run, with hyperparameters once the learner has written them.

    Raises:
      ConfigError: If one of its files is damaged.
    """
    try:
        settings = {name: value for name, value in read_settings(paths).items()
                    if not name.startswith(("files ", "packages "))}  # fmt: skip
        config, provenance = read_json(paths.config) or {}, read_json(paths.provenance) or {}
        settings |= {f"config.{name}": value for name, value in config.items()}
        settings |= {n: provenance[n] for n in ("seed", "gin_bindings") if n in provenance}
        commit = provenance.get("git_hash")
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"{paths.root}: a file of it is damaged ({error}). Repair it.") from error
    files = (paths.config, paths.params, paths.gin, paths.provenance, paths.git_diff)
    return Description(
        paths.root.name,
        settings,
        commit,
        {file: file.stat().st_mtime_ns for file in files if is_inside(file, paths.root)},
    )
