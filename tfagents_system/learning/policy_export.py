"""Writes the policy: SavedModels for deployment, and variables of each checkpoint."""

import contextlib
import functools
import gc
import logging
import os
import pathlib
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.policies import policy_saver

from tfagents_system.core.errors import ConfigError, SupersededError
from tfagents_system.core.state.disk import SPARE_BYTES, SpaceGuard, bytes_of, check_space_is_left
from tfagents_system.core.state.files import make_folder_durably, rename_durably
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths


class PolicyExporter:
    """Writes `policies/{collect_policy,greedy_policy}` and `policies/checkpoints/*`.

    The SavedModels have the variables of the last export; to load those of a checkpoint, use
    `SavedModelPyTFEagerPolicy.update_from_checkpoint`.
    """

    def __init__(
        self,
        paths: ExperimentPaths,
        agent: tf_agent.TFAgent,
        train_step: tf.Variable,
        fence: Fence,
    ):
        """Traces and writes nothing yet; writes nothing once `fence` is superseded."""
        self._paths = paths
        self._agent = agent
        self._train_step = train_step
        self._fence = fence
        self._saved: set[str] = set()  # SavedModels whose graph is written
        self._guard = SpaceGuard("policy", paths.policies, self._num_bytes, tolerated=OSError)

    def prepare(self) -> None:
        """Writes both SavedModels, which takes a second or two; later exports are fast.

        Called before training, so that a network that cannot be exported fails at once.
        """
        self._clear_unfinished()
        with self._guard, _without_remarks():
            self._save_models()

    def export(self) -> bool:
        """Writes a checkpoint of the current variables and replaces both SavedModels.

        Returns whether they could be written; if not, the old SavedModels stay, and the next call
        tries again.
        """
        target = self._paths.policy_checkpoint(int(self._train_step.numpy()))
        with self._guard, _without_remarks():
            try:
                self._replace(target, self._savers["greedy_policy"].save_checkpoint)
                self._save_models()
            except tf.errors.OpError as error:  # `prepare` has shown that the policy can be saved
                raise OSError(str(error)) from error
        return not self._guard.is_full

    @property
    def problem(self) -> str | None:
        """Why the last export failed; None if it succeeded."""
        return self._guard.problem

    @property
    def lacks_space(self) -> bool:
        """Whether the disk was too full for the last export."""
        return self._guard.lacks_space

    @functools.cached_property
    def _savers(self) -> dict[str, policy_saver.PolicySaver]:
        policies = {
            "collect_policy": self._agent.collect_policy,
            "greedy_policy": self._agent.policy,
        }
        return {
            name: policy_saver.PolicySaver(policy, train_step=self._train_step)
            for name, policy in policies.items()
        }

    def _save_models(self) -> None:
        for name in self._savers:
            self._replace(self._paths.policies / name, functools.partial(self._save_model, name))
            self._saved.add(name)

    def _save_model(self, name: str, folder: str) -> None:
        """Writes a SavedModel to `folder`; after the first one, this takes milliseconds."""
        written = self._paths.policies / name
        saver = self._savers[name]
        if name in self._saved and written.is_dir():
            # Only the variables have changed, and a checkpoint has them in the same format.
            variables = shutil.ignore_patterns(tf.saved_model.VARIABLES_DIRECTORY)
            shutil.copytree(written, folder, ignore=variables)
            saver.save_checkpoint(folder)
            return
        saver.save(folder)
        # TensorFlow leaves 2 MB in reference cycles, which Python collects only in large batches.
        gc.collect()

    def _replace(self, target: pathlib.Path, save: Callable[[str], None]) -> None:
        unfinished = target.with_name(f".tmp-{self._fence.number}-{target.name}")
        old = target.with_name(f".old-{self._fence.number}-{target.name}")

        def make_room() -> None:
            check_space_is_left(unfinished)
            shutil.rmtree(old, ignore_errors=True)
            self._fence.check()
            if target.exists():
                os.replace(target, old)

        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            make_folder_durably(unfinished.parent)
            save(str(unfinished))
            rename_durably(unfinished, target, make_room)
        except (OSError, tf.errors.OpError, SupersededError):
            shutil.rmtree(unfinished, ignore_errors=True)  # on a full disk it would only take space
            if old.exists() and not target.exists():
                os.replace(old, target)
            raise
        if not self._fence.is_newest:  # was frozen before the rename: restore the later start's
            os.replace(target, unfinished)
            if old.exists():
                os.replace(old, target)
            shutil.rmtree(unfinished, ignore_errors=True)
            self._fence.check()
        shutil.rmtree(old, ignore_errors=True)

    def _clear_unfinished(self) -> None:
        """Removes remains of killed starts; the exports of earlier living starts then fail."""
        for folder in (self._paths.policies, self._paths.policies / "checkpoints"):
            for path in folder.glob(".*"):
                owned = re.fullmatch(r"\.(?:tmp|old)-([0-9]+)-.*", path.name)
                if owned and int(owned[1]) <= self._fence.number:
                    shutil.rmtree(path, ignore_errors=True)

    def _num_bytes(self) -> int:
        return sum(bytes_of(self._paths.policies / name) for name in self._savers) + SPARE_BYTES


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """Hides what libraries log about every SavedModel."""
    loggers = [logging.getLogger(name) for name in ("absl", "tensorflow")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def write_policy(checkpoint: pathlib.Path, variables: Sequence[tf.Variable]) -> None:
    """Writes a policy checkpoint for `restore_policy`; makes the folder."""
    folder = checkpoint / tf.saved_model.VARIABLES_DIRECTORY
    target = tf.train.Checkpoint(model_variables=list(variables))
    target.write(str(folder / tf.saved_model.VARIABLES_FILENAME))
    check_space_is_left(checkpoint)


def restore_policy(checkpoint: pathlib.Path, variables: Sequence[tf.Variable]) -> None:
    """Assigns the variables of a policy checkpoint, in the order of `policy.variables()`.

    Raises:
      ConfigError: If the checkpoint is of another network, or cannot be read.
    """
    prefix = checkpoint / tf.saved_model.VARIABLES_DIRECTORY / tf.saved_model.VARIABLES_FILENAME
    target = tf.train.Checkpoint(model_variables=list(variables))
    unique = {id(variable): variable for variable in variables}  # a checkpoint has each once
    wanted = [variable.shape.as_list() for variable in unique.values()]
    try:
        saved = {name: shape for name, shape in tf.train.list_variables(str(prefix))}
        indices = range(len(saved) + len(variables))  # without those of repetitions
        names = (f"model_variables/{index}/.ATTRIBUTES/VARIABLE_VALUE" for index in indices)
        # Reading would ignore variables that only the checkpoint has, such as of a normalizer.
        if (shapes := [saved[name] for name in names if name in saved]) != wanted:
            raise ConfigError(
                f"{checkpoint} is of another network: the shapes of its variables are {shapes}, "
                f"those of the network that the params file describes {wanted}."
            )
        status = target.read(str(prefix)).assert_existing_objects_matched()
        status.expect_partial()  # its train step is not used
    except (tf.errors.OpError, IndexError, RuntimeError) as error:  # missing; cut short; damaged
        raise ConfigError(f"{checkpoint} cannot be read: {error}") from error
