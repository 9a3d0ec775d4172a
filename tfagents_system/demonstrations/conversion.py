"""Writes demonstrations in another format."""

import pathlib
from collections.abc import Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import make_folder_durably
from tfagents_system.demonstrations.episode_file import Episode, write_episodes
from tfagents_system.demonstrations.files import READERS
from tfagents_system.demonstrations.unity_demo_writer import write_unity_demo

DEMO = ".demo"


def convert(episodes: Sequence[Episode], output: pathlib.Path, branches: Sequence[int]) -> None:
    """Writes `episodes` to `output`: a .demo file of ML-Agents, or a new folder of .npz files.

    Raises:
      ConfigError: If `output` exists, or has a format that cannot be written.
    """
    if output.exists():
        raise ConfigError(f"{output} already exists. Choose another --output.")
    if output.suffix == DEMO:
        make_folder_durably(output.parent)
        write_unity_demo(output, episodes, branches)
        return
    if output.suffix in READERS:
        raise ConfigError(
            f"{output}: no file of this format is written; expected a file FILE{DEMO}, and the "
            "name of a folder, for a file .npz of each episode."
        )
    if branches:
        raise ConfigError(f"--branches is for a {DEMO} file.")
    write_episodes(output, episodes)
