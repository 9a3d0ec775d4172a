"""Reads demonstrations from a file, the files of a folder, or an experiment's replay buffer."""

import pathlib
from collections.abc import Callable, Mapping, Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import is_experiment
from tfagents_system.demonstrations.episode_file import Episode, read_episode
from tfagents_system.demonstrations.experiment import find_replay
from tfagents_system.demonstrations.hdf5 import read_hdf5
from tfagents_system.demonstrations.lerobot import INFO as LEROBOT
from tfagents_system.demonstrations.lerobot import read_lerobot
from tfagents_system.demonstrations.unity_demo import read_unity_demo

MINARI = "data/main_data.hdf5"  # in the folder of a data set of Minari


def read_demonstrations(path: pathlib.Path, missing_reward: float | None = None) -> list[Episode]:
    """Returns all episodes in `path`, at least one; those of a folder in the order of file names.

    For an experiment's folder, they are those in its replay buffer. `missing_reward` is the reward
    of each step in a data set of LeRobot without rewards, which is otherwise rejected.

    Raises:
      ConfigError: If there is none, or a file cannot be read; the message has the path.
    """
    if not path.exists():
        raise ConfigError(f"{path}: there are no such demonstrations.")
    if (path / MINARI).is_file():
        path /= MINARI
    if is_experiment(path):
        # Imported here, because TensorFlow takes seconds, and files do not need it.
        from tfagents_system.demonstrations.replay import read_replay

        episodes = read_replay(path)
    elif (path / LEROBOT).is_file():
        episodes = read_lerobot(path, missing_reward)
    else:
        files = [path] if path.is_file() else demonstration_files(path)
        episodes = [episode for file in files for episode in _reader_of(file)(file)]
    if not episodes:
        raise ConfigError(f"{path}: it has no episode.")
    return episodes


def check_demonstrations(path: pathlib.Path) -> None:
    """Raises ConfigError if `path` cannot be read; needs no TensorFlow.

    For an experiment, it finds the checkpoint and checks that it is complete.
    """
    if is_experiment(path):
        find_replay(path)
    else:
        read_demonstrations(path)


def find_demonstrations(path: str, params_dir: pathlib.Path) -> pathlib.Path:
    """Returns a path of the setting `demonstrations`.

    It is relative to the current folder or, if it is not there, to that of the params file.
    """
    here, beside_params = pathlib.Path(path), params_dir / path
    return beside_params if beside_params.exists() and not here.exists() else here


def demonstration_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of demonstrations directly in `folder`, by name.

    Raises:
      ConfigError: If there is none.
    """
    files = [file for file in folder.iterdir() if file.suffix in READERS]
    visible = sorted(file for file in files if not file.name.startswith("."))
    if not visible:
        raise ConfigError(f"{folder}: no file in it is one of {', '.join(READERS)}.")
    return visible


def _reader_of(file: pathlib.Path) -> Callable[[pathlib.Path], Sequence[Episode]]:
    try:
        return READERS[file.suffix]
    except KeyError:
        raise ConfigError(
            f"{file}: not a file of demonstrations; expected {', '.join(READERS)}."
        ) from None


def _read_npz(file: pathlib.Path) -> list[Episode]:
    return [read_episode(file)]


READERS: Mapping[str, Callable[[pathlib.Path], Sequence[Episode]]] = {
    ".npz": _read_npz,
    ".demo": read_unity_demo,
    ".hdf5": read_hdf5,
    ".h5": read_hdf5,
}
