"""Writes the table of an evaluation, episode by episode, beside its films."""

import pathlib
import re
from collections.abc import Collection, Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.evaluation import summary
from tfagents_system.evaluation.summary import EvaluatedEpisode
from tfagents_system.terminal.lines import Terminal

TABLE = "episodes.csv"
_FILM = re.compile(r"episode_(0|[1-9]\d*)\.mp4")


def remove_other_films(folder: pathlib.Path, films: Collection[pathlib.Path]) -> None:
    """Removes the films of episodes in `folder` except `films`; other files stay."""
    for path in folder.glob("episode_*.mp4"):
        if _FILM.fullmatch(path.name) and path not in films:
            path.unlink(missing_ok=True)


class Results:
    """The complete episodes of an evaluation so far.

    The folder has the newest evaluation: its first episode replaces an earlier table, and removes
    other films, which are from another seed or a longer evaluation.
    """

    def __init__(self, folder: pathlib.Path, seed: int, num_episodes: int):
        """Makes the folder.

        Args:
          folder: Folder of the table and the films.
          seed: The evaluation's seed.
          num_episodes: Number of episodes of the whole evaluation.

        Raises:
          ConfigError: If the folder cannot be made.
        """
        self.episodes: Sequence[EvaluatedEpisode] = ()
        self._folder, self._seed, self._num_episodes = folder, seed, num_episodes
        self._error: OSError | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._explained(error) from error

    @property
    def are_complete(self) -> bool:
        """True once all episodes are complete."""
        return len(self.episodes) == self._num_episodes

    def keep(self, episodes: Sequence[EvaluatedEpisode]) -> None:
        """Writes the table; if it cannot be written, `check_written` tells so at the end."""
        self.episodes, self._error = tuple(episodes), None
        try:
            summary.write_csv(self._folder / TABLE, episodes, self._seed)
            films = [each.video for each in episodes if each.video is not None]
            remove_other_films(self._folder, films)
        except OSError as error:
            self._error = error

    def show(self, terminal: Terminal) -> None:
        """Prints the summary, and where the table is."""
        if not self.are_complete:
            number = len(self.episodes)
            terminal.print(f"stopped after {number} of {self._num_episodes} episodes")
        if not self.episodes:
            return
        for line in summary.summary_lines(self.episodes):
            terminal.print(line)
        if self._error is None:
            terminal.print(f"written to {self._folder}")

    def check_written(self) -> None:
        """Raises ConfigError if the table could not be written."""
        if self._error is not None:
            raise self._explained(self._error) from self._error

    def _explained(self, error: OSError) -> ConfigError:
        return ConfigError(f"Cannot write the results to {self._folder}: {error.strerror}.")
