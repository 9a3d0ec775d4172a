"""A program's own view of its run, which is compared with the run's spec."""

import pathlib
from typing import Any

import numpy as np
import tree

from tfagents_system.core.leaves import leaf_name
from tfagents_system.core.process.user_modules import loaded_modules
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.state.run_spec import RunSpec, as_json, file_hashes
from tfagents_system.data.codec import Codec
from tfagents_system.data.item_description import describe_item
from tfagents_system.data.item_layout import ItemLayout


def view_of_run(
    run: Run,
    observation_spec: Any,
    action_spec: Any,
    codec: Codec,
    layout: ItemLayout,
    arithmetic: str | None = None,
    demonstrations: str | None = None,
) -> RunSpec:
    """Returns this program's view of `run`, after its environment is built.

    Args:
      run: The loaded experiment.
      observation_spec: Nest of specs with `shape` and `dtype`.
      action_spec: The same, with bounds.
      codec: Codec of one step.
      layout: Layout of the items.
      arithmetic: Arithmetic of the learner's matrix products; None in other programs.
      demonstrations: Digest of the learner's demonstrations, if it has any.
    """
    modules = {module.name: pathlib.Path(module.source) for module in loaded_modules()}
    files = {"config.json": run.paths.running_config, "params.py": run.paths.running_params}
    return RunSpec(
        seed=run.seed,
        gin_bindings=list(run.gin_bindings),
        horizon=run.horizon,
        settings={k: as_json(v) for k, v in run.params.hyperparameters().items()},
        observation=describe_specs(observation_spec),
        action=describe_specs(action_spec),
        item=describe_item(layout, codec.columns),
        files=file_hashes(files | modules),
        arithmetic=arithmetic,
        demonstrations=demonstrations,
    )


def describe_specs(spec: Any) -> dict[str, str]:
    """Returns shape, dtype and bounds, if any, of each leaf by its path."""
    leaves = {}
    for path, leaf in tree.flatten_with_path(spec):
        text = f"{np.dtype(getattr(leaf.dtype, 'as_numpy_dtype', leaf.dtype)).name} "
        text += str(list(leaf.shape))
        if hasattr(leaf, "minimum"):
            low, high = (np.unique(bound).tolist() for bound in (leaf.minimum, leaf.maximum))
            text += f" from {low} to {high}"
        leaves[leaf_name(*path) or "all"] = text
    return leaves
