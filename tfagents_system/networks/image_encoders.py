"""Convolutional encoders of image observations."""

import math
from collections.abc import Callable

import tensorflow as tf

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.data.images import channels_last, is_image, layout_of, size_of
from tfagents_system.networks.encoders import as_inputs, num_inputs

LEAK = 0.01  # slope of LeakyReLU below 0, as in Unity ML-Agents

_Conv = tf.keras.layers.Conv2D
_Layers = list[tf.keras.layers.Layer]


def _offpcc() -> _Layers:
    """Returns the layers of Yarats et al. 2021, arXiv:2004.13649, appendix B, with 50 features."""
    return [
        _Conv(32, 3, 2, activation="relu"),
        *(_Conv(32, 3, activation="relu") for _ in range(3)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(50),
        tf.keras.layers.LayerNormalization(),
        tf.keras.layers.Activation("tanh"),
    ]


def _simple() -> _Layers:
    """Returns the two convolutions of Mnih et al. 2013, arXiv:1312.5602, section 4.1, with ELU."""
    return [
        _Conv(16, 8, 4, activation="elu"),
        _Conv(32, 4, 2, activation="elu"),
        tf.keras.layers.Flatten(),
    ]


def _nature_cnn() -> _Layers:
    """Returns the three convolutions of Mnih et al. 2015, Human-level control, methods."""
    return [
        _Conv(32, 8, 4, activation="relu"),
        _Conv(64, 4, 2, activation="relu"),
        _Conv(64, 3, activation="relu"),
        tf.keras.layers.Flatten(),
    ]


def _impala() -> _Layers:
    """Returns the residual network of Espeholt et al. 2018, arXiv:1802.01561, figure 3."""
    layers: _Layers = []
    for channels in (16, 32, 32):
        layers += [
            _Conv(channels, 3),
            tf.keras.layers.MaxPool2D(3, 2, padding="same"),
            Residual(channels),
            Residual(channels),
        ]
    return [*layers, tf.keras.layers.ReLU(), tf.keras.layers.Flatten()]


def _match3() -> _Layers:
    """Returns the two convolutions for boards of cells, of Unity ML-Agents' encoder "match3"."""
    return [
        _Conv(35, 3),
        tf.keras.layers.LeakyReLU(LEAK),
        _Conv(144, 3),
        tf.keras.layers.LeakyReLU(LEAK),
        tf.keras.layers.Flatten(),
    ]


def _fully_connected() -> _Layers:
    """Returns a dense layer, as in Unity ML-Agents' encoder "fully_connected"."""
    return [
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(128),
        tf.keras.layers.LeakyReLU(LEAK),
    ]


class Residual(tf.keras.layers.Layer):
    """x -> x + convolutions of x."""

    def __init__(self, channels: int):
        super().__init__()
        self.convolutions = [_Conv(channels, 3, padding="same") for _ in range(2)]

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the sum, of the shape of `x`."""
        inner = x
        for convolution in self.convolutions:
            inner = convolution(tf.nn.relu(inner))
        return x + inner


# The layers, and the smallest side of an image, in pixels, that they can process.
_KINDS: dict[str, tuple[Callable[[], _Layers], int]] = {
    "offpcc": (_offpcc, 15),
    "simple": (_simple, 20),
    "nature_cnn": (_nature_cnn, 36),
    "impala": (_impala, 15),
    "match3": (_match3, 5),
    "fully_connected": (_fully_connected, 1),
}
_BY_SIZE = ("nature_cnn", "simple", "impala", "match3", "fully_connected")


def encoder_kind(spec: tf.TypeSpec, chosen: str | None) -> str:
    """Returns the encoder of an image: `chosen`, or one by its size if that is None.

    Raises:
      ConfigError: If the image is too small for `chosen`.
    """
    height, width, _ = size_of(spec)
    fitting = [kind for kind, (_, least) in _KINDS.items() if min(height, width) >= least]
    if chosen is None:
        return next(kind for kind in _BY_SIZE if kind in fitting)
    if chosen not in fitting:
        least = _KINDS[chosen][1]
        raise ConfigError(
            f"TrainParams.image_encoder is {chosen}, which needs images of at least {least} x "
            f"{least} pixels; the environment's have {height} x {width}. Expected "
            f"{', '.join(fitting)}, or None, which chooses by size. If that is not their height "
            "and width, set image_layouts: docs/environments.md#images."
        )
    return chosen


class VisualEncoder(tf.keras.layers.Layer):
    """Joins an observation with images to one float32 vector for each step.

    Each image goes through its own convolutions, divided by 255 if it is uint8; images of floats
    keep their values. All other parts are inputs as in ObservationEncoder. They are joined in
    the order of `tf.nest.flatten`, which sorts the keys of a dict.
    """

    def __init__(self, observation_spec: Nest, kind: str | None):
        """Makes the variables.

        Args:
          observation_spec: Nest of TensorSpecs without batch axis.
          kind: "offpcc", "simple", "nature_cnn", "impala", "match3" or "fully_connected"; None
            chooses one for each image, by its size.

        Raises:
          ConfigError: If an image is too small for the convolutions.
        """
        super().__init__(name="visual_encoder")
        self.specs = tf.nest.flatten(observation_spec)
        self.convolutions: list[tf.keras.Sequential | None] = []  # None: the part is not an image
        self.num_features = 0
        for spec in self.specs:
            layers = None
            if is_image(spec):
                make_layers, _ = _KINDS[encoder_kind(spec, kind)]
                layers = tf.keras.Sequential(make_layers())
                self.num_features += layers(tf.zeros([1, *size_of(spec)])).shape[1]
            else:
                self.num_features += num_inputs(spec)
            self.convolutions.append(layers)

    def call(self, observation: Nest) -> tf.Tensor:
        """Returns [B, n] for leaves [B, ...], or [B, T, n] for leaves [B, T, ...]."""
        leaves = tf.nest.flatten(observation)
        num_outer = leaves[0].shape.rank - len(self.specs[0].shape)
        outer = tf.shape(leaves[0])[:num_outer]
        parts = []
        for leaf, spec, layers in zip(leaves, self.specs, self.convolutions, strict=True):
            part = tf.cast(tf.reshape(leaf, [-1, *spec.shape]), tf.float32)
            if layers is None:
                parts.append(as_inputs(tf.reshape(part, [-1, math.prod(spec.shape)]), spec))
                continue
            part = channels_last(part, layout_of(spec))
            parts.append(layers(part / 255 if leaf.dtype == tf.uint8 else part))
        joined = tf.concat(parts, axis=-1)
        return tf.reshape(joined, tf.concat([outer, [self.num_features]], axis=0))


def random_shift(
    images: tf.Tensor, largest: int, seed: tf.Tensor, side_axes: tuple[int, int] = (-3, -2)
) -> tf.Tensor:
    """Shifts each image by up to `largest` pixels vertically and horizontally.

    The image is padded by repeating the pixels of the edge, then cropped.
    Source: Yarats et al. 2021, Image Augmentation Is All You Need, arXiv:2004.13649, section 3.1.

    Args:
      images: [B, H, W, C], or [B, T, H, W, C], where each sequence has one shift.
      largest: Pixels, >= 0.
      seed: int32 [2]; the same seed gives the same shifts.
      side_axes: Axes of height and width, counted from the last, for other layouts.
    """
    batch = tf.shape(images)[0]
    shifts = tf.random.stateless_uniform([2, batch], seed, -largest, largest + 1, tf.int32)
    for axis, shift in zip(side_axes, tf.unstack(shifts), strict=True):
        size = images.shape[axis]
        places = tf.clip_by_value(tf.range(size) + shift[:, tf.newaxis], 0, size - 1)
        images = tf.gather(images, places, axis=axis, batch_dims=1)
    return images
