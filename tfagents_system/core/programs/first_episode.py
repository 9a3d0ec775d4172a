"""Decides whether a misfit environment is the configuration's fault or one worker's.

Until a start of a run has had a whole episode, nothing has shown that params and environment fit:
what does not is wrong input, and ends the run at once. Later it is a failure of the environment
that shows it, like any other, and the run goes on.
"""

import contextlib
from collections.abc import Iterator

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.state.paths import ExperimentPaths


class FirstEpisode:
    """The first whole episode of a start of a run, of whichever program."""

    def __init__(self) -> None:
        """Belongs to no run yet: nothing has been shown then."""
        self._paths: ExperimentPaths | None = None
        self._is_over = False

    def of(self, paths: ExperimentPaths | None) -> None:
        """Is from now on that of the newest start of a run."""
        self._paths, self._is_over = paths, False

    def is_over(self) -> bool:
        """Returns whether there has been one."""
        if not self._is_over and self._paths is not None:
            self._is_over = self._paths.first_episode.exists()
        return self._is_over

    def end(self) -> None:
        """Records that there has been one; costs nothing after the first call."""
        if self._is_over or self._paths is None:
            return
        self._is_over = True
        with contextlib.suppress(OSError):  # a full disk: other programs learn it from another one
            self._paths.first_episode.touch()

    @contextlib.contextmanager
    def judges(self) -> Iterator[None]:
        """Lets a ConfigError leave the block as a UserCodeError if there has been one."""
        try:
            yield
        except ConfigError as error:
            if not self.is_over():
                raise
            raise UserCodeError(str(error), str(error)) from error


FIRST_EPISODE = FirstEpisode()  # of the run that this process has loaded
