"""The copies of config and params that all programs of one start of a run use.

An edit of `config.json` or `params.py` while a run goes on would otherwise reach only the programs
that are started again, and a run would disagree with itself.
"""

import os
import shutil

from tfagents_system.core.files import rename_durably, temporary_name
from tfagents_system.core.paths import ExperimentPaths


def begin_run(paths: ExperimentPaths) -> None:
    """Replaces `running/` by copies of the experiment's config and params; needs its lock."""
    fresh = temporary_name(paths.running)
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir()
        shutil.copyfile(paths.config, fresh / paths.config.name)
        shutil.copyfile(paths.params, fresh / paths.params.name)
        shutil.rmtree(paths.running, ignore_errors=True)
        rename_durably(fresh, paths.running)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def edited_files(paths: ExperimentPaths) -> list[str]:
    """Returns the names of those files of the experiment that differ from what its run uses."""
    pairs = ((paths.config, paths.running_config), (paths.params, paths.running_params))
    return [original.name for original, copy in pairs if _differs(original, copy)]


def _differs(original: os.PathLike[str], copy: os.PathLike[str]) -> bool:
    try:
        with open(original, "rb") as first, open(copy, "rb") as second:
            return first.read() != second.read()
    except OSError:  # removed, or a folder of before its first start: nothing to say
        return False
