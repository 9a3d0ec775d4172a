"""Names, defaults and ranges of the training hyperparameters."""

import dataclasses
import difflib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean

MATMUL_PRECISIONS = ("auto", "float32", "bfloat16", "int16")
MOST_COUNT = 10**9  # the product of two still fits into 64 bits


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and abs(value) <= sys.float_info.max  # isfinite fails for a huge integer


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """One published hyperparameter."""

    default: Any
    is_allowed: Callable[[Any], bool]
    allowed: str  # what `is_allowed` accepts, in words
    meaning: str


def _count(default: int, meaning: str, at_least: int = 1) -> Hyperparameter:
    return Hyperparameter(
        default,
        lambda v: _is_int(v) and at_least <= v <= MOST_COUNT,
        f"an integer >= {at_least} and <= {MOST_COUNT}",
        meaning,
    )


def _positive(default: float, meaning: str) -> Hyperparameter:
    return Hyperparameter(default, lambda v: _is_number(v) and v > 0, "a number > 0", meaning)


def _layers(default: tuple[int, ...], meaning: str) -> Hyperparameter:
    return Hyperparameter(
        default,
        lambda v: (
            isinstance(v, (tuple, list)) and all(_is_int(n) and 0 < n <= MOST_COUNT for n in v)
        ),
        "a tuple of integers > 0",
        meaning,
    )


def _flag(default: bool, meaning: str) -> Hyperparameter:
    return Hyperparameter(default, lambda v: isinstance(v, bool), "True or False", meaning)


def _fraction(
    default: float, allowed: str, is_allowed: Callable[[float], bool], meaning: str
) -> Hyperparameter:
    return Hyperparameter(default, lambda v: _is_number(v) and is_allowed(v), allowed, meaning)


HYPERPARAMETERS: Mapping[str, Hyperparameter] = {
    "discount": _fraction(
        0.99, "a number in [0, 1]", lambda v: 0 <= v <= 1, "discount factor per env step"
    ),
    "critic_learning_rate": _positive(3e-4, "Adam step size of the critics"),
    "actor_learning_rate": _positive(3e-4, "Adam step size of the actor"),
    "alpha_learning_rate": _positive(3e-4, "Adam step size of log alpha"),
    "target_update_tau": _fraction(
        0.005,
        "a number in (0, 1]",
        lambda v: 0 < v <= 1,
        "weight of the critic in each soft update of its target",
    ),
    "target_update_period": _count(1, "train steps between updates of the target critics"),
    "gradient_clipping": Hyperparameter(
        None,
        lambda v: v is None or (_is_number(v) and v > 0),
        "None or a number > 0",
        "largest global gradient norm of each network; None does not clip",
    ),
    "sac_log_alpha": Hyperparameter(
        1.0, _is_number, "a number", "initial log of the entropy temperature alpha"
    ),
    "actor_fc_layer_params": _layers((256, 256), "units of the actor's hidden layers"),
    "critic_joint_fc_layer_params": _layers((256, 256), "units of each critic's hidden layers"),
    "num_iter": _count(1000, "iterations until training is finished"),
    "num_steps_per_iter": _count(50, "train steps (gradient updates) per iteration"),
    "n_episodes_in_buffer": _count(350, "replay capacity, in episodes of `horizon` env steps"),
    "n_train_episodes_per_iter": _count(
        1, "episodes of `horizon` env steps all workers together collect per iteration"
    ),
    "n_eval_episodes": _count(5, "greedy episodes per evaluation, over all workers", at_least=0),
    "n_buffer_init_episodes": _count(
        30, "episodes of `horizon` env steps collected before the first train step"
    ),
    "eval_period_itrs": _count(
        250, "iterations between evaluations; 0 evaluates never", at_least=0
    ),
    "log_period_itrs": _count(10, "iterations between TensorBoard summaries"),
    "checkpoint_period_itrs": _count(250, "iterations between checkpoints"),
    "checkpoint_period_secs": _positive(
        60.0,
        "longest time between checkpoints of the training state, in seconds; policies are exported "
        "every `checkpoint_period_itrs` alone",
    ),
    "journal_max_mb": Hyperparameter(
        256.0,
        lambda v: _is_number(v) and v >= 0,
        "a number >= 0",
        "largest journal of a worker, in MB: what it has sent since the last checkpoint but one, "
        "from which it sends again what a crash of the replay server has lost; 0 keeps none",
    ),
    "prefetch_batches": _count(
        3, "minibatches' worth of samples the learner keeps in flight from the replay server"
    ),
    "train_batch_size": _count(256, "transitions (or sequences) per minibatch"),
    "fresh_samples_per_step": Hyperparameter(
        64,
        lambda v: v is None or (_is_int(v) and 1 <= v <= MOST_COUNT),
        f"None or an integer >= 1 and <= {MOST_COUNT}",
        "transitions (or sequences) per train step that are new from the replay server: they "
        "renew a pool in the learner's memory, from which it draws its minibatches; a multiple of "
        "8 is the fastest; None draws every minibatch from the server",
    ),
    "matmul_precision": Hyperparameter(
        "auto",
        lambda v: isinstance(v, str) and v in MATMUL_PRECISIONS,
        "one of " + ", ".join(f'"{name}"' for name in MATMUL_PRECISIONS),
        "arithmetic of the matrix products of train steps: int16 needs AVX-512 with VNNI and the "
        "compiled ops, bfloat16 a CPU that has its instructions; auto is int16 where possible, "
        "else float32; variables and policies are float32 in any case",
    ),
    "recurrent": _flag(False, "train LSTM networks on sequences"),
    "recurrent_sequence_length": _count(20, "env steps per sequence if `recurrent`", at_least=2),
    "seed_sac_buffer": _flag(
        True,
        "collect the first `n_buffer_init_episodes` with the random policy; "
        "False collects them with the untrained policy",
    ),
    "exploration_noise_beta": _fraction(
        0.0,
        "a number in [0, 2]",
        lambda v: 0 <= v <= 2,
        "exponent of the power spectrum 1/f^beta of the noise that workers act with: 0 is white "
        "noise, 1 is pink noise, which pushes in one direction for a while and explores farther",
    ),
    "preprocessing_combiner": Hyperparameter(
        None,
        lambda v: v is None or callable(v),
        "None or a Keras layer",
        "Keras layer that joins the parts of a nested observation into one vector [B, n]; it "
        "receives the nest, or the list of its parts if it is a merge layer such as `Concatenate`",
    ),
}


HOOKS = (
    "env_ctor",
    "collect_env_args_kwargs",
    "eval_env_args_kwargs",
    "actor_ctor",
    "critic_ctor",
    "agent_ctor",
    "train_observers_ctor",
    "eval_observers_ctor",
)  # methods of TrainParams that a user may define


def check_attribute_name(name: str, where: str) -> None:
    """Raises ConfigError if an attribute of TrainParams looks like a misspelt published name.

    Attributes of the user's own are allowed, so only a near miss is an error.
    """
    published = (*HYPERPARAMETERS, *HOOKS)
    if name in published or name.startswith("_"):
        return
    nearest = difflib.get_close_matches(name, published, n=1, cutoff=0.8)
    if nearest:
        raise ConfigError(
            f"{where}: TrainParams.{name} is not a training parameter. Did you mean {nearest[0]}? "
            "(An attribute of your own needs a name less like it, or a leading underscore.)"
        )


def check_hyperparameter(name: str, value: Any, where: str) -> None:
    """Raises ConfigError if `name` is unknown or `value` is not allowed; `where` it was set."""
    if name not in HYPERPARAMETERS:
        raise ConfigError(
            f"{where}: {name} is not a training parameter.{did_you_mean(name, HYPERPARAMETERS)}"
        )
    hyperparameter = HYPERPARAMETERS[name]
    if not hyperparameter.is_allowed(value):
        raise ConfigError(
            f"{where}: {name} is {_shown(value)}; allowed is {hyperparameter.allowed}."
        )


def _shown(value: Any, most: int = 200) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not write integers of thousands of digits
        return "an integer of thousands of digits"
    return text if len(text) <= most else f"{text[:most]}..."


def num_fresh_samples(values: Mapping[str, Any]) -> int:
    """Returns the items that a train step takes from the replay server."""
    batch_size = values["train_batch_size"]
    return min(values["fresh_samples_per_step"] or batch_size, batch_size)


def num_samples_in_flight(values: Mapping[str, Any]) -> int:
    """Returns the transitions or sequences that the replay server may send ahead of the learner.

    Few would be sent in small portions, of which each wakes up threads of both.
    """
    return values["prefetch_batches"] * values["train_batch_size"]


def check_consistency(values: Mapping[str, Any], horizon: int, where: str) -> None:
    """Raises ConfigError for hyperparameters that are each allowed but do not fit together."""
    if values["n_buffer_init_episodes"] > values["n_episodes_in_buffer"]:
        raise ConfigError(
            f"{where}: n_buffer_init_episodes ({values['n_buffer_init_episodes']}) exceeds "
            f"n_episodes_in_buffer ({values['n_episodes_in_buffer']}): the replay buffer could "
            "never hold the episodes that training waits for."
        )
    for name in ("actor_fc_layer_params", "critic_joint_fc_layer_params"):
        if values["recurrent"] and not values[name]:
            raise ConfigError(
                f"{where}: {name} is {values[name]!r}; a recurrent network needs at least one "
                "layer: its LSTM takes its size from there."
            )
    if values["recurrent"] and values["recurrent_sequence_length"] > horizon:
        raise ConfigError(
            f"{where}: recurrent_sequence_length ({values['recurrent_sequence_length']}) exceeds "
            f"the horizon ({horizon}): no episode would hold one sequence."
        )
