"""Copies the weights of another experiment, from which a new one starts, into its folder."""

import dataclasses
import pathlib
import shutil

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.settings.variables import INITIALIZE_FROM
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.core.state.generations import (
    REPLAY_FOLDER,
    damage_of,
    generations,
    newest_intact_generation,
)
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment


@dataclasses.dataclass(frozen=True)
class InitialWeights:
    """A checkpoint: a generation, which has all networks, or a policy, which has only the actor."""

    checkpoint: pathlib.Path

    @classmethod
    def find(cls, text: str) -> "InitialWeights":
        """Returns the checkpoint that `EXP[:CHECKPOINT]` names; the newest intact one for `EXP`.

        For a folder of `sac clone`, that is its policy.

        Raises:
          ConfigError: If there is no such checkpoint, or it is damaged.
        """
        folder, name = _parts(text)
        try:
            paths = existing_experiment(pathlib.Path(folder))
            if name:
                return cls(_checkpoint(paths, name))
            if paths.clone.exists():
                checkpoint = next(reversed(paths.policy_checkpoints()), None)
            else:
                checkpoint = newest_intact_generation(paths.checkpoints)
        except ConfigError as error:
            raise ConfigError(f"{INITIALIZE_FROM} is {text!r}: {error}") from error
        if checkpoint is None:
            raise ConfigError(
                f"{INITIALIZE_FROM} is {text!r}: {paths.checkpoints} has no checkpoint. For the "
                f"actor alone, name a policy, such as {folder}:best."
            )
        return cls(checkpoint)

    def copy_to(self, folder: pathlib.Path) -> None:
        """Copies the checkpoint to `folder`, without the replay buffer.

        Raises:
          ConfigError: If the experiment is running and has just dropped the checkpoint.
          OSError: If a file cannot be read or written, as on a full disk.
        """
        failures: list[OSError] = []  # copytree would turn them into text

        def copy(source: str, target: str) -> str:
            try:
                return shutil.copy2(source, target)
            except OSError as error:
                failures.append(error)
                raise

        left_out = shutil.ignore_patterns(REPLAY_FOLDER)
        try:
            shutil.copytree(self.checkpoint, folder, ignore=left_out, copy_function=copy)
        except (FileNotFoundError, shutil.Error) as error:
            if failures and not isinstance(failures[0], FileNotFoundError):
                raise failures[0] from None
            raise ConfigError(
                f"{self.checkpoint} ({INITIALIZE_FROM}) changed while it was read, as the "
                "experiment is running: start the same command again."
            ) from error


def may_name(text: str, checkpoint: str | None) -> bool:
    """Returns whether `EXP[:CHECKPOINT]` may have named `checkpoint` at some time."""
    if checkpoint is None:
        return False
    folder, name = _parts(text)
    path = pathlib.Path(checkpoint).resolve()
    return pathlib.Path(folder).resolve() in path.parents and name in ("", "best", path.name)


def _parts(text: str) -> tuple[str, str]:
    """Returns the folder and the checkpoint, or "", that `EXP[:CHECKPOINT]` names."""
    folder, colon, name = text.rpartition(":")
    return (folder, name) if colon and not pathlib.Path(text).is_dir() else (text, "")


def _checkpoint(paths: ExperimentPaths, name: str) -> pathlib.Path:
    checkpoints = {path.name: path for path in generations(paths.checkpoints)}
    if name in checkpoints:
        if damage := damage_of(checkpoints[name]):
            raise ConfigError(f"the checkpoint is damaged: {damage}.")
        return checkpoints[name]
    checkpoints |= {path.name: path for path in paths.policy_checkpoints()}
    if best := best_policy(paths):
        checkpoints["best"] = best.folder
    if name not in checkpoints:
        raise ConfigError(
            f"{paths.root} has no checkpoint {name!r}.{did_you_mean(name, checkpoints)} "
            f"There are: {', '.join(checkpoints) or 'none'}."
        )
    return checkpoints[name]
