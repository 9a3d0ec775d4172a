"""Describes an observation encoder as steps that need no TensorFlow."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.core.categories import columns, is_category
from tfagents_system.core.observation_kinds import is_entities, is_goal
from tfagents_system.data.images import layout_of
from tfagents_system.networks.encoders import ObservationEncoder
from tfagents_system.networks.entity_encoder import (
    EPSILON,
    LEAST_SQUARES,
    NUM_HEADS,
    EntityEncoder,
)
from tfagents_system.networks.image_encoders import Residual, VisualEncoder

Read = Callable[[tf.Variable], NDArray[Any]]  # returns its value


def encoder_arrays(
    encoder: ObservationEncoder | VisualEncoder | EntityEncoder, read: Read
) -> dict[str, NDArray[Any]]:
    """Returns the arrays from which `numpy_encoders.encoded` computes what `encoder` does.

    There are none if it only joins the parts of an observation. If it has goals, there are also
    `goal_steps`, which read them.

    `encoder_steps` describe each step in words; `encoder_kernel_<k>` and `encoder_bias_<k>` are the
    weights of the steps that end with the number k. The steps are:

    - `skip n`: the next n numbers are not used.
    - `part n`: the next n numbers are features, unchanged.
    - `image 84 84 3 HWC 255`: the next numbers are an image of these axes, divided by 255; the
      steps up to the next `part` or `image` make its features.
    - `conv stride padding k`, `dense k`, `layer_norm epsilon k`, `max_pool size stride`, `flatten`,
      `relu`, `elu`, `tanh`, `leaky_relu slope`.
    - `one_hot k`: a part that is a category is one-hot encoded, see `core/categories.py`; the
      weights are its columns.
    - `keep` and `add`: the second adds the values at the first.
    - `entities n m`: the next numbers are a list of n entities of m numbers.
    - `attention heads least epsilon k`: the features of all lists, in which entities with a sum of
      squares below `least` are absent, become the last part. Its weights begin with the number k:
      those of the earlier parts, if any, of each list, and of query, key, value and output.
    """
    steps: list[str] = []
    arrays: dict[str, NDArray[Any]] = {}

    def add(kernel: NDArray[Any], bias: NDArray[Any]) -> int:
        index = len(arrays) // 2
        arrays[f"encoder_kernel_{index}"], arrays[f"encoder_bias_{index}"] = kernel, bias
        return index

    def weights(kernel: tf.Variable, bias: tf.Variable) -> int:
        return add(read(kernel), read(bias))

    def part(spec: tf.TypeSpec) -> Iterator[str]:
        yield f"part {math.prod(spec.shape)}"
        if is_category(spec):
            yield f"one_hot {add(*columns(spec))}"

    goal_steps: list[str] = []
    if any(map(is_goal, encoder.specs)):
        for spec in encoder.specs:
            goal_steps.extend(part(spec) if is_goal(spec) else [f"skip {math.prod(spec.shape)}"])
    by_name = {"goal_steps": np.array(goal_steps)} if goal_steps else {}
    others = encoder.others if isinstance(encoder, EntityEncoder) else encoder
    if others is encoder and isinstance(others, ObservationEncoder):
        if not any(map(is_category, encoder.specs)):
            return by_name
    of_others = iter(others.convolutions if isinstance(others, VisualEncoder) else ())
    for spec in encoder.specs:
        if is_entities(spec):
            steps.append(f"entities {spec.shape[0]} {spec.shape[1]}")
            continue
        convolutions = next(of_others, None)
        if convolutions is None:
            steps.extend(part(spec))
            continue
        shape = " ".join(map(str, spec.shape))
        divisor = 255 if spec.dtype == tf.uint8 else 1
        steps.append(f"image {shape} {layout_of(spec)} {divisor}")
        for layer in convolutions.layers:
            steps.extend(_steps(layer, weights))
    if isinstance(encoder, EntityEncoder):
        first = len(arrays) // 2
        for layer in encoder.attention.dense_layers:
            weights(layer.kernel, layer.bias)
        steps.append(f"attention {NUM_HEADS} {LEAST_SQUARES} {EPSILON} {first}")
    return {"encoder_steps": np.array(steps)} | by_name | arrays


def _steps(layer: tf.keras.layers.Layer, weights: Callable[..., int]) -> Iterator[str]:
    kind, layers = type(layer), tf.keras.layers
    if kind is Residual:
        yield "keep"
        for convolution in layer.convolutions:
            yield "relu"
            yield from _steps(convolution, weights)
        yield "add"
    elif kind is layers.Conv2D:
        (stride, _), index = layer.strides, weights(layer.kernel, layer.bias)
        yield f"conv {stride} {layer.padding} {index}"
        yield from _activation(layer)
    elif kind is layers.Dense:
        yield f"dense {weights(layer.kernel, layer.bias)}"
        yield from _activation(layer)
    elif kind is layers.LayerNormalization:
        yield f"layer_norm {layer.epsilon} {weights(layer.gamma, layer.beta)}"
    elif kind is layers.MaxPool2D:
        yield f"max_pool {layer.pool_size[0]} {layer.strides[0]}"
    elif kind is layers.LeakyReLU:
        yield f"leaky_relu {layer.get_config()['alpha']}"
    elif kind is layers.Activation:
        yield from _activation(layer)
    else:
        yield {layers.ReLU: "relu", layers.Flatten: "flatten"}[kind]


def _activation(layer: tf.keras.layers.Layer) -> Iterator[str]:
    name = layer.activation.__name__
    if name != "linear":
        yield name
