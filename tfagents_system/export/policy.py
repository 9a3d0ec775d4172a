"""Exports a policy: a model of its greedy actions, and a runner of at most 30 lines.

Example: sac export logs/pendulum --to numpy onnx
Reads config.json, params.py and policies/ in the experiment's folder. Writes a folder per format to
exports/<checkpoint>/ there: the model, run_policy.py, which acts with it, and example.json, an
observation with its action. An observation is what the environment of the params file returns,
without batch axis.
"""

import contextlib
import io
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from typing import Annotated

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import OneOf
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.state.paths import existing_experiment
from tfagents_system.evaluation.saved_experiment import find_checkpoint, load_saved_params
from tfagents_system.terminal.progress import progress_bar

FORMATS = ("numpy", "onnx", "savedmodel", "tflite", "unity")


def export(
    exp_dir: str,
    to: Annotated[tuple[str, ...], OneOf(FORMATS)],
    params: str | None = None,
    config: str | None = None,
    checkpoint: str | None = None,
    output: str | None = None,
) -> None:
    """Writes a policy in one or more formats and prints the names of the folders.

    Args:
      exp_dir: Folder of the experiment.
      to: numpy, onnx, savedmodel, tflite or unity; several are allowed.
      params: Params file. Default: params.py in exp_dir.
      config: JSON config. Default: config.json in exp_dir.
      checkpoint: Such as policy_checkpoint_0000500000. Default: the newest.
      output: Folder to write to. Default: exports/<checkpoint> in exp_dir.

    Raises:
      ConfigError: If an argument, or a file that it names, is wrong, or a format does not support
        the policy.
    """
    paths = existing_experiment(pathlib.Path(exp_dir))
    policy_checkpoint = find_checkpoint(paths, checkpoint)
    env_config = load_env_config(pathlib.Path(config) if config else paths.config)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors only
    with contextlib.redirect_stderr(io.StringIO()):  # gym advertises its successor
        # Imported here, because TensorFlow takes seconds, and wrong input is reported before.
        import tensorflow as tf

        from tfagents_system.export import models

    folder = pathlib.Path(output) if output else paths.exports / policy_checkpoint.name
    for name in dict.fromkeys(to):
        _check_may_be_replaced(folder / name, models.OF_EACH)
    policy = models.restore(load_saved_params(paths, params, env_config), policy_checkpoint)
    if policy.note:
        print(f"NOTE: {policy.note}", file=sys.stderr)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            written = pathlib.Path(temporary)
            names = dict.fromkeys(to)
            # Written only after all are made, so that an unsupported format leaves nothing behind.
            with progress_bar(*names) as begin:
                for name in names:
                    begin(name)
                    models.write(policy, name, written / name)
            for name in names:
                _replace(written / name, folder / name)
                print(folder / name)
    except (OSError, tf.errors.OpError) as error:
        # An Error of shutil has a reason for each file, and no strerror.
        reason = error.args[0][0][-1] if isinstance(error, shutil.Error) else error
        raise ConfigError(f"Cannot write the policy to {folder}: {reason}.") from error


def _check_may_be_replaced(target: pathlib.Path, of_export: Sequence[str]) -> None:
    """Raises ConfigError if `target` is neither free nor has the files of an export."""
    is_free = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    if not is_free and not all((target / name).is_file() for name in of_export):
        raise ConfigError(
            f"{target} already exists, and is not an export of a policy. Choose another --output."
        )


def _replace(source: pathlib.Path, target: pathlib.Path) -> None:
    """Replaces the folder `target` by a copy of `source`, which may be on another disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copytree(source, unfinished)
        if target.exists():
            shutil.rmtree(target)
        os.replace(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
