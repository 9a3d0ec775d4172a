"""Decides whether a misfit environment is the configuration's fault or one worker's.

Until a start of a run has had a complete episode, nothing shows that params and environment fit: a
misfit is wrong input, and ends the run at once. After that, a misfit is a failure of one
environment, like any other, and the run continues.
"""

import contextlib
from collections.abc import Iterator

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.state.paths import ExperimentPaths


class FirstEpisode:
    """The first complete episode of a start of a run, in any of its programs."""

    def __init__(self) -> None:
        """Belongs to no run yet; see `set_run`."""
        self._paths: ExperimentPaths | None = None
        self._is_over = False

    def set_run(self, paths: ExperimentPaths | None) -> None:
        """Sets the run; its newest start counts."""
        self._paths, self._is_over = paths, False

    def is_over(self) -> bool:
        """Returns whether there has been a complete episode."""
        if not self._is_over and self._paths is not None:
            self._is_over = self._paths.first_episode.exists()
        return self._is_over

    def end(self) -> None:
        """Records a complete episode; costs nothing after the first call."""
        if self._is_over or self._paths is None:
            return
        self._is_over = True
        with contextlib.suppress(OSError):  # the disk is full; another program will record it
            self._paths.first_episode.touch()

    @contextlib.contextmanager
    def judges(self) -> Iterator[None]:
        """Turns a ConfigError of the block into a UserCodeError after the first episode."""
        try:
            yield
        except ConfigError as error:
            if not self.is_over():
                raise
            raise UserCodeError(str(error), str(error)) from error


FIRST_EPISODE = FirstEpisode()  # for the run that this process has loaded
