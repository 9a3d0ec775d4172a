"""Finds out whether a run trains offline, and so has no collecting workers."""

import dataclasses

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import GIN_BINDINGS, Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.provenance import original_of
from tfagents_system.launch.checks.params_check import (
    check_gin_bindings,
    check_params_file,
    setting_of,
)
from tfagents_system.launch.experiment import folder as experiment

SHARE = "demonstration_share"  # 1 in an offline run


def without_collection(settings: Settings) -> Settings:
    """Returns `settings`; for an offline run, with an evaluator in place of collecting workers.

    A run is offline by the settings of its earlier starts or by `settings`, which take precedence.

    Raises:
      ConfigError: If the params file, the bindings or the experiment's folder cannot be read, or a
        setting does not fit an offline run.
    """
    paths = ExperimentPaths(settings.exp_dir)
    params, bindings = settings.params, settings.gin_bindings
    if not experiment.is_new(paths) and not paths.clone.exists():
        params = paths.params
        bindings = (*experiment.read_saved(paths)["gin_bindings"], *bindings)
    check_params_file(params, (original_of(params).parent,))
    bound = check_gin_bindings(bindings, GIN_BINDINGS)
    if setting_of(bound, params, SHARE) != 1:
        return settings
    if settings.deterministic:
        raise ConfigError(
            f"SAC_DETERMINISTIC is 1 and {SHARE} is 1; expected auto or 0: an offline run "
            "has no worker with which the learner could take turns. Its minibatches depend on the "
            "seed alone."
        )
    if settings.num_collect_workers:
        print(f"Note: SAC_NUM_COLLECT_WORKERS is {settings.num_collect_workers}; this run trains "
              "offline, and has none.")  # fmt: skip
    num_evaluators = max(1, settings.eval_workers)
    return dataclasses.replace(settings, num_collect_workers=0, eval_workers=num_evaluators)
