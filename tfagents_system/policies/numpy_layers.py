"""Computes the layers and the head of an actor, for one env step, or for several at once.

Needs only NumPy, and Python 3.8, because exports include this file.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
if TYPE_CHECKING:
    Layer = tuple[Callable[..., list[Array]], Array, Array, Array]  # see `read_layers`


def read_layers(arrays: Mapping[str, Array]) -> list[Layer]:
    """Returns the layers in `arrays`, in order: (step, kernel, recurrent_kernel, bias) each.

    Layer k of the kind "lstm", "gru" or "rnn" has the arrays `<kind>_kernel_<k>` [n, gates units],
    `<kind>_recurrent_kernel_<k>` [units, gates units] and `<kind>_bias_<k>` [gates units].
    """
    layers: list[Layer] = []
    for index in itertools.count():
        kinds = [kind for kind in STEPS if f"{kind}_kernel_{index}" in arrays]
        if not kinds:
            break
        parts = ("kernel", "recurrent_kernel", "bias")
        kernel, recurrent_kernel, bias = (arrays[f"{kinds[0]}_{part}_{index}"] for part in parts)
        layers.append((STEPS[kinds[0]], kernel, recurrent_kernel, bias))
    return layers


def zero_states(layers: Sequence[Layer]) -> list[list[Array]]:
    """Returns the states before the first step of an episode: [output] or [output, cell] each."""
    return [
        [np.zeros(len(recurrent_kernel), np.float32)] * (2 if step is lstm_step else 1)
        for step, _, recurrent_kernel, _ in layers
    ]


def run_layers(
    layers: Sequence[Layer], x: Array, states: Sequence[Sequence[Array]]
) -> tuple[Array, list[list[Array]]]:
    """Returns (output of the last layer [..., units], next states) for an input [..., n]."""
    next_states = []
    for index, (step, *weights) in enumerate(layers):
        next_states.append(step(x, *states[index], *weights))
        x = next_states[-1][0]
    return x, next_states


def hidden(arrays: Mapping[str, Any], x: Array, goals: Array | None) -> Array:
    """Returns the output of the last hidden layer for features [n], and for goals [g], if any.

    With `are_goals_beside`, the goals are first appended to the features.
    """
    if goals is not None and arrays["are_goals_beside"]:
        x = np.concatenate([x, goals], axis=-1)
    for index in itertools.count():
        if f"hidden_kernel_{index}" not in arrays:
            break
        kernel, bias = (arrays[f"hidden_{part}_{index}"] for part in ("kernel", "bias"))
        x = np.maximum(x @ kernel + bias, 0)
    return x if goals is None else generated(arrays, x, goals)


def generated(arrays: Mapping[str, Any], x: Array, goals: Array) -> Array:
    """Returns the output [..., units] for `x` [..., n] of the layer generated from goals [..., g].

    Its arrays are `goal_kernel_<k>` and `goal_bias_<k>` of the layers that generate it, the
    last one without activation, after layer normalization, and `generated_bias`.
    """
    for index in range(2):
        goals = goals @ arrays[f"goal_kernel_{index}"] + arrays[f"goal_bias_{index}"]
        goals = goals * _sigmoid(goals)
    centered = goals - goals.mean(axis=-1, keepdims=True)
    goals = centered / np.sqrt(goals.var(axis=-1, keepdims=True) + np.float32(1e-5))
    kernels = goals @ arrays["goal_kernel_2"] + arrays["goal_bias_2"]
    kernels = kernels.reshape(*x.shape, -1)
    product = (x[..., np.newaxis, :] @ kernels)[..., 0, :]
    return np.maximum(product + arrays["generated_bias"], 0)


def leaves_of(arrays: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the arrays `<leaf>.<name>` by leaf and name; {} if there are none."""
    leaves: dict[str, dict[str, Any]] = {}
    for key, value in arrays.items():
        leaf, dot, name = key.rpartition(".")
        if dot:
            leaves.setdefault(leaf, {})[name] = value
    return leaves


def greedy_action(arrays: Mapping[str, Any], x: Array, mask: Any = None) -> Any:
    """Returns the greedy action for the features `x` [n] from a head's arrays.

    They are `logits_kernel`, `logits_bias`, `sizes` and `start` for discrete actions, otherwise
    `mean_kernel`, `mean_bias`, `center`, `magnitude`, `low` and `high`. For a nest of actions they
    are `<leaf>.<name>`, and the result is a dict by leaf. An integer whose entry in `mask` is 0
    is never chosen.
    """
    if "logits_kernel" in arrays:
        start, ends = arrays["start"], np.cumsum(arrays["sizes"])[:-1]
        logits = x @ arrays["logits_kernel"] + arrays["logits_bias"]
        if mask is not None:
            logits = np.where(mask, logits, np.float32(-1e9))
        best = [branch.argmax() for branch in np.split(logits, ends)]
        return (start + np.reshape(best, start.shape)).astype(start.dtype)
    if "mean_kernel" in arrays:
        mean = np.tanh(x @ arrays["mean_kernel"] + arrays["mean_bias"])
        return np.clip(arrays["center"] + arrays["magnitude"] * mean, arrays["low"], arrays["high"])
    actions, begin = {}, 0
    for leaf, own in leaves_of(arrays).items():
        end = begin + sum(own.get("sizes", ()))
        actions[leaf] = greedy_action(own, x, None if mask is None else mask[begin:end])
        begin = end
    return actions


def lstm_step(
    x: Array, h: Array, c: Array, kernel: Array, recurrent_kernel: Array, bias: Array
) -> list[Array]:
    """Returns [h', c']; the gates are input, forget, cell and output.

    Source: Hochreiter and Schmidhuber 1997, Long Short-Term Memory, with the forget gate of Gers et
    al. 2000.
    """
    i, f, g, o = np.split(x @ kernel + h @ recurrent_kernel + bias, 4, axis=-1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return [_sigmoid(o) * np.tanh(c), c]


def gru_step(
    x: Array, h: Array, kernel: Array, recurrent_kernel: Array, bias: Array
) -> list[Array]:
    """Returns [h']; the gates are update, reset and candidate.

    Source: Cho et al. 2014, arXiv:1406.1078, equations 5 to 8.
    """
    num_gated = 2 * h.shape[-1]
    from_x = x @ kernel + bias
    gates = _sigmoid(from_x[..., :num_gated] + h @ recurrent_kernel[:, :num_gated])
    z, r = np.split(gates, 2, axis=-1)
    candidate = np.tanh(from_x[..., num_gated:] + (r * h) @ recurrent_kernel[:, num_gated:])
    return [z * h + (1 - z) * candidate]


def rnn_step(
    x: Array, h: Array, kernel: Array, recurrent_kernel: Array, bias: Array
) -> list[Array]:
    """Returns [h']; Elman 1990, Finding Structure in Time."""
    return [np.tanh(x @ kernel + h @ recurrent_kernel + bias)]


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))  # does not overflow, unlike 1 / (1 + exp(-x))


STEPS: dict[str, Callable[..., list[Array]]] = {"lstm": lstm_step, "gru": gru_step, "rnn": rnn_step}
