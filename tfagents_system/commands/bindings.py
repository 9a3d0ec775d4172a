"""Turns hyperparameters on the command line into gin bindings."""

import ast
from collections.abc import Mapping, Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.checks.params_check import check_gin_bindings


def with_bindings(assignments: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns SAC_GIN_BINDINGS with `assignments` after what there is; nothing without any.

    Args:
      assignments: Such as "train_batch_size=512"; what is no Python literal is a text.
      environ: May have SAC_GIN_BINDINGS.

    Raises:
      ConfigError: For something else, an unknown hyperparameter, or a value that is not allowed.
    """
    if not assignments:
        return {}
    bindings = [text for text in [environ.get("SAC_GIN_BINDINGS", "")] if text]
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not (name and equals and value):
            raise ConfigError(f"--set is {assignment!r}; allowed is NAME=VALUE.")
        try:
            if isinstance(literal := ast.literal_eval(value), tuple):
                value = repr(literal)  # gin needs parentheses: --set actor_fc_layer_params=256,256
        except (ValueError, SyntaxError):
            if not value.startswith(("@", "%")):  # references of gin
                value = repr(value)  # --set matmul_precision=float32
        binding = f"TrainParams.{name.removeprefix('TrainParams.')} = {value}"
        check_gin_bindings([binding], "--set")
        bindings.append(binding)
    return {"SAC_GIN_BINDINGS": "\n".join(bindings)}
