"""Computes the inputs of an actor's layers, for one env step, or for several at once.

Needs only NumPy, and Python 3.8, because exports include this file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def features(arrays: Mapping[str, Any], x: Array) -> tuple[Array, Array | None]:
    """Returns the inputs [..., m] of the first layer for observations [..., n], and goals [..., g].

    The goals are None without `goal_steps`, which compute them.
    """
    x = normalized(arrays, x)
    goals = encoded(arrays, x, "goal_steps") if "goal_steps" in arrays else None
    return encoded(arrays, x), goals


def normalized(arrays: Mapping[str, Array], x: Array) -> Array:
    """Normalizes observations [..., n].

    clip((x - observation_mean) * observation_scale, observation_low, observation_high), if `arrays`
    has these, [n] each.
    """
    if "observation_mean" not in arrays:
        return x
    x = (x - arrays["observation_mean"]) * arrays["observation_scale"]
    return np.minimum(np.maximum(x, arrays["observation_low"]), arrays["observation_high"])


def encoded(arrays: Mapping[str, Any], x: Array, steps: str = "encoder_steps") -> Array:
    """Returns the inputs [..., m] of an actor's first layer for normalized observations [..., n].

    The `encoder_steps` compute them, see `policies/encoder_steps.py`; without any, they are `x`.
    """
    if steps not in arrays:
        return x
    rows = x.reshape(-1, x.shape[-1])
    parts: list[Array] = []
    lists: list[Array] = []
    kept, begin = rows, 0
    for kind, *words in map(str.split, arrays[steps].tolist()):
        if kind == "skip":
            begin += int(words[0])
        elif kind == "part":
            end = begin + int(words[0])
            parts.append(rows[:, begin:end])
            begin = end
        elif kind == "image":
            *sides, layout, divisor = words
            shape = [int(side) for side in sides]
            end = begin + math.prod(shape)
            image = rows[:, begin:end].reshape(-1, *shape) / np.float32(divisor)
            axes = {"HWC": [0, 1, 2, 3], "CHW": [0, 2, 3, 1], "HW": [0, 1, 2]}[layout]
            image = np.transpose(image, axes)
            parts.append(image[..., np.newaxis] if layout == "HW" else image)
            begin = end
        elif kind == "entities":
            most, size = (int(word) for word in words)
            end = begin + most * size
            lists.append(rows[:, begin:end].reshape(-1, most, size))
            begin = end
        elif kind == "attention":
            parts.append(_attention(arrays, parts, lists, *words))
        elif kind == "keep":
            kept = parts[-1]
        elif kind == "add":
            parts[-1] = kept + parts[-1]
        else:
            parts[-1] = _IMAGE_STEPS[kind](arrays, parts[-1], *words)
    joined = np.concatenate(parts, axis=1)
    return joined.reshape(*x.shape[:-1], joined.shape[-1])


def _weights(arrays: Mapping[str, Any], index: str) -> tuple[Array, Array]:
    return arrays[f"encoder_kernel_{index}"], arrays[f"encoder_bias_{index}"]


def _conv(arrays: Mapping[str, Any], x: Array, stride: str, padding: str, index: str) -> Array:
    """Convolves [N, H, W, C] with a kernel [h, w, C, filters]."""
    kernel, bias = _weights(arrays, index)
    windows = _windows(x, kernel.shape[0], int(stride), padding, 0.0)
    return np.tensordot(windows, kernel, ([4, 5, 3], [0, 1, 2])) + bias


def _max_pool(arrays: Mapping[str, Any], x: Array, size: str, stride: str) -> Array:
    return _windows(x, int(size), int(stride), "same", -np.inf).max(axis=(4, 5))


def _windows(x: Array, size: int, stride: int, padding: str, outside: float) -> Array:
    """Returns the windows of [N, H, W, C] as [N, H', W', C, size, size]."""
    if padding == "same":
        missing = [max((-(-n // stride) - 1) * stride + size - n, 0) for n in x.shape[1:3]]
        margins = [(n // 2, n - n // 2) for n in missing]
        x = np.pad(x, [(0, 0), *margins, (0, 0)], constant_values=outside)
    sides: Any = (1, 2)  # NumPy's own types allow only one axis
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=sides)
    return windows[:, ::stride, ::stride]


def _dense(arrays: Mapping[str, Any], x: Array, index: str) -> Array:
    kernel, bias = _weights(arrays, index)
    return x @ kernel + bias


def _one_hot(arrays: Mapping[str, Any], x: Array, index: str) -> Array:
    source, value = _weights(arrays, index)
    return (x[:, source] == value).astype(np.float32)


def _layer_norm(arrays: Mapping[str, Any], x: Array, epsilon: str, index: str) -> Array:
    scale, offset = _weights(arrays, index)
    variance = x.var(axis=-1, keepdims=True) + np.float32(epsilon)
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(variance) * scale + offset


def _attention(
    arrays: Mapping[str, Any],
    parts: Sequence[Array],
    lists: Sequence[Array],
    num_heads: str,
    least: str,
    epsilon: str,
    first: str,
) -> Array:
    """Returns features [N, m] of lists of entities [N, n, k] each, given the other `parts`."""
    weights = (_weights(arrays, str(index)) for index in itertools.count(int(first)))

    def dense(x: Array) -> Array:
        kernel, bias = next(weights)
        return x @ kernel + bias

    def standardized(x: Array) -> Array:
        variance = x.var(axis=-1, keepdims=True) + np.float32(epsilon)
        return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(variance)

    def by_head(x: Array) -> Array:
        return x.reshape(*x.shape[:2], int(num_heads), -1).transpose(0, 2, 1, 3)

    squares = np.concatenate([np.square(entities).sum(axis=-1) for entities in lists], axis=1)
    present = squares >= np.float32(least)
    embedded = []
    of_self = [_swish(dense(np.concatenate(parts, axis=1)))] if parts else []
    for entities in lists:
        own = [np.repeat(x[:, np.newaxis], entities.shape[1], axis=1) for x in of_self]
        embedded.append(_swish(dense(np.concatenate([*own, entities], axis=-1))))
    x = standardized(np.concatenate(embedded, axis=1))
    query, key, value = (by_head(dense(x)) for _ in range(3))
    scores = query @ key.swapaxes(2, 3) / math.sqrt(x.shape[-1])
    scores = np.where(present[:, np.newaxis, np.newaxis], scores, np.float32(-1e6))
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    x = standardized(x + dense((shares @ value).transpose(0, 2, 1, 3).reshape(x.shape)))
    count = np.maximum(present.sum(axis=1, keepdims=True, dtype=np.float32), 1)
    return (x * present[..., np.newaxis]).sum(axis=1) / count


def _swish(x: Array) -> Array:
    return x * 0.5 * (1.0 + np.tanh(0.5 * x))  # does not overflow, unlike 1 / (1 + exp(-x))


_IMAGE_STEPS: Mapping[str, Callable[..., Array]] = {
    "conv": _conv,
    "max_pool": _max_pool,
    "dense": _dense,
    "layer_norm": _layer_norm,
    "one_hot": _one_hot,
    "flatten": lambda arrays, x: x.reshape(len(x), -1),
    "relu": lambda arrays, x: np.maximum(x, 0),
    "elu": lambda arrays, x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "leaky_relu": lambda arrays, x, slope: np.where(x > 0, x, np.float32(slope) * x),
    "tanh": lambda arrays, x: np.tanh(x),
}
