"""The head for a Dict or Tuple of Box and discrete actions, such as an arm and a gripper.

V(s) = mean_i sum_a pi_i(a|s) (min_k Q_k,i(s, c, a) - alpha_i log pi_i(a|s)) - alpha_c log pi(c|s):
the continuous actions c are sampled, and are inputs of the critics; i is a branch of the discrete
actions, whose values are outputs of the critics. Given the state, all parts are independent.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tree
from numpy.typing import NDArray

from tfagents_system.core.action_masks import FORBIDDEN
from tfagents_system.core.nests import Nest
from tfagents_system.networks.box_head import BoxHead
from tfagents_system.networks.discrete_head import DiscreteHead
from tfagents_system.networks.heads import ActionHead, Floats, NumpyHead, OutputLayer

Leaf = BoxHead | DiscreteHead


class NestedHead(ActionHead):
    """The head for a nest of actions, with a head for each leaf.

    All Boxes together are the first part; each branch of a discrete leaf is another. The critics
    return the values of all integers [..., N], leaf by leaf; without any, the value of the Boxes.
    """

    def __init__(self, action_spec: Nest, leaves: Sequence[Leaf]):
        """Takes the heads of all leaves of the environment's spec, in the order of tf.nest."""
        self.action_spec = action_spec
        self.leaves = list(leaves)
        self.boxes = [leaf for leaf in leaves if isinstance(leaf, BoxHead)]
        self.discrete = [leaf for leaf in leaves if isinstance(leaf, DiscreteHead)]
        self.num_values = sum(leaf.num_values for leaf in self.discrete) or 1
        self.vector_size = sum(leaf.vector_size for leaf in self.leaves)
        self._num_branches = sum(leaf.num_branches for leaf in self.discrete)
        weights: list[float] = []  # of the parts, and their target entropies
        targets: list[float] = []
        if self.boxes:
            weights.append(1.0)
            targets.append(-float(sum(leaf.num_actions for leaf in self.boxes)))
        for leaf in self.discrete:
            weights += list(self._share(leaf) * np.atleast_1d(leaf.part_weights))
            targets += list(self._share(leaf) * np.atleast_1d(leaf.default_target_entropy))
        self.part_weights = _unless_single(weights)
        self.default_target_entropy = _unless_single(targets)

    def output_layer(self, is_deterministic: bool) -> OutputLayer:
        """See ActionHead; a discrete leaf has no deterministic one."""
        return _NestedLayer(self, [leaf.output_layer(is_deterministic) for leaf in self.leaves])

    def masked(self, distribution: Any, mask: tf.Tensor) -> Any:
        """See ActionHead."""
        masks = (of_leaf for _, of_leaf in self._split(mask))
        return self._packed([
            leaf.masked(of_leaf, next(masks)) if isinstance(leaf, DiscreteHead) else of_leaf
            for leaf, of_leaf in self._with(distribution)
        ])  # fmt: skip

    def reachable_share(self, mask: tf.Tensor) -> tf.Tensor:
        """See ActionHead."""
        shares = []
        for leaf, of_leaf in self._split(mask):
            share = leaf.reachable_share(of_leaf)
            shares.append(share[..., tf.newaxis] if leaf.num_branches == 1 else share)
        ones = [tf.ones_like(shares[0][..., :1])] if self.boxes else []
        joined = tf.concat([*ones, *shares], axis=-1)
        return tf.squeeze(joined, axis=-1) if np.size(self.part_weights) == 1 else joined

    def sample(self, distribution: Any) -> tuple[Nest, tf.Tensor]:
        """See ActionHead."""
        actions, log_probs = [], []
        for leaf, of_leaf in self._with(distribution):
            action, log_prob = leaf.sample(of_leaf)
            actions.append(action)
            log_probs.append(log_prob)
        return self._packed(actions), self._parts(log_probs)

    def expectation(
        self, distribution: Any, judge: Callable[[Any], tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See ActionHead; exact for integers, given sampled actions of the Boxes."""
        actions, log_probs, of_integers = [], [], []
        for leaf, of_leaf in self._with(distribution):
            if isinstance(leaf, BoxHead):
                action, log_prob = leaf.sample(of_leaf)
            else:
                of_integers.append(leaf.own(of_leaf).log_probs())
                action = leaf.any_action(of_integers[-1])
                log_prob = leaf.mean_log_prob(of_integers[-1])
            actions.append(action)
            log_probs.append(log_prob)
        value = judge(self._packed(actions))
        if self.discrete:
            means = [
                self._share(leaf) * leaf.mean_value(of_leaf, values)
                for (leaf, values), of_leaf in zip(self._split(value), of_integers, strict=True)
            ]
            value = tf.add_n(means)
        return value, self._parts(log_probs)

    def critic_inputs(self, action: Nest) -> tf.Tensor:
        """See ActionHead; returns the actions of the Boxes, scaled to [-1, 1]."""
        inputs = [leaf.critic_inputs(of_leaf) for leaf, of_leaf in self._with(action)]
        return tf.concat(inputs, axis=-1)

    def as_vector(self, action: Nest) -> tf.Tensor:
        """See ActionHead; leaf by leaf."""
        parts = [leaf.as_vector(of_leaf) for leaf, of_leaf in self._with(action)]
        return tf.concat(parts, axis=-1)

    def prediction(self, distribution: Any) -> tf.Tensor:
        """See ActionHead; leaf by leaf."""
        parts = [leaf.prediction(of_leaf) for leaf, of_leaf in self._with(distribution)]
        return tf.concat(parts, axis=-1)

    def prediction_error(self, predicted: tf.Tensor, action: Nest) -> tf.Tensor:
        """See ActionHead."""
        places = _places([leaf.vector_size for leaf in self.leaves])
        return tf.add_n([
            leaf.prediction_error(predicted[..., place], of_leaf)
            for (leaf, of_leaf), place in zip(self._with(action), places, strict=True)
        ])  # fmt: skip

    def taken(self, values: tf.Tensor, action: Nest) -> tf.Tensor:
        """See ActionHead; returns the mean over all branches."""
        if not self.discrete:
            return values
        actions = [a for leaf, a in self._with(action) if isinstance(leaf, DiscreteHead)]
        return tf.add_n([
            self._share(leaf) * leaf.taken(of_leaf, chosen)
            for (leaf, of_leaf), chosen in zip(self._split(values), actions, strict=True)
        ])  # fmt: skip

    def alpha_metrics(self, alpha: tf.Tensor) -> dict[str, tf.Tensor]:
        """See ActionHead; if it has both, also those of continuous and of discrete parts."""
        metrics = super().alpha_metrics(alpha)
        if self.boxes and self.discrete:
            metrics["continuous_alpha"] = alpha[0]
            metrics["discrete_alpha"] = tf.reduce_mean(alpha[1:])
        return metrics

    def _with(self, nest: Any) -> Iterator[tuple[Leaf, Any]]:
        """Yields each leaf's head with its part of actions or distributions."""
        return zip(self.leaves, tf.nest.flatten(nest), strict=True)

    def _packed(self, actions: Sequence[Any]) -> Nest:
        return tf.nest.pack_sequence_as(self.action_spec, actions)

    def _share(self, leaf: DiscreteHead) -> float:
        """Returns the share of a discrete leaf's branches."""
        return leaf.num_branches / self._num_branches

    def _split(self, values: tf.Tensor) -> Iterator[tuple[DiscreteHead, tf.Tensor]]:
        """Yields each discrete leaf's head with its part of the critics' values [..., N]."""
        begin = 0
        for leaf in self.discrete:
            yield leaf, values[..., begin : begin + leaf.num_values]
            begin += leaf.num_values

    def _parts(self, log_probs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns log-probabilities [..., P], or [...] of a single part, from the leaves'."""
        of_boxes = [p for leaf, p in zip(self.leaves, log_probs, strict=True)
                    if isinstance(leaf, BoxHead)]  # fmt: skip
        parts = [tf.add_n(of_boxes)[..., tf.newaxis]] if of_boxes else []
        for leaf, log_prob in zip(self.leaves, log_probs, strict=True):
            if isinstance(leaf, DiscreteHead):
                one = log_prob[..., tf.newaxis] if leaf.num_branches == 1 else log_prob
                parts.append(self._share(leaf) * one)
        joined = tf.concat(parts, axis=-1)
        return tf.squeeze(joined, axis=-1) if np.size(self.part_weights) == 1 else joined


def _unless_single(values: Sequence[float]) -> float | Floats:
    return float(values[0]) if len(values) == 1 else np.array(values, np.float32)


class _NestedLayer(OutputLayer):
    """Features -> a nest of distributions or actions; outputs are those of the leaves in turn."""

    def __init__(self, head: NestedHead, layers: Sequence[OutputLayer]):
        num_outputs = sum(layer.projection.units for layer in layers)
        super().__init__(num_outputs, "nested_head", "outputs_of_leaves")
        self._head, self._of_leaves = head, list(layers)

    def of(self, outputs: tf.Tensor) -> Any:
        places = _places([layer.projection.units for layer in self._of_leaves])
        return tf.nest.pack_sequence_as(
            self._head.action_spec,
            [layer.of(outputs[..., p]) for layer, p in zip(self._of_leaves, places, strict=True)],
        )

    def numpy_head(self) -> NumpyHead:
        heads = [layer.numpy_head() for layer in self._of_leaves]
        sizes = [layer.projection.units for layer in self._of_leaves]
        return NumpyNestedHead(self._head.action_spec, heads, sizes)


class NumpyNestedHead:
    """The NumPy version; see NumpyHead. Actions are nests of arrays."""

    def __init__(self, action_spec: Nest, heads: Sequence[NumpyHead], sizes: Sequence[int]):
        """Takes the leaves' heads, and how many outputs of the last layer each has."""
        self._action_spec, self._heads = action_spec, heads
        self._names = ["_".join(map(str, path)) for path, _ in tree.flatten_with_path(action_spec)]
        self._outputs = _places(sizes)
        # The noise of choices comes last, because it alone is always white.
        order = sorted(range(len(heads)), key=lambda leaf: heads[leaf].num_choices > 0)
        places = _places([heads[leaf].num_noises for leaf in order])
        self._noises = [places[order.index(leaf)] for leaf in range(len(heads))]
        self.num_noises = sum(head.num_noises for head in heads)
        self.num_choices = sum(head.num_choices for head in heads)
        self._discrete = np.concatenate([
            np.full(size, head.num_choices > 0) for head, size in zip(heads, sizes, strict=True)
        ])  # fmt: skip

    def masked(self, outputs: Floats, mask: NDArray[Any]) -> Floats:
        """See NumpyHead."""
        masked = outputs.copy()
        integers = outputs[..., self._discrete]
        masked[..., self._discrete] = np.where(mask, integers, np.float32(FORBIDDEN))
        return masked

    def greedy(self, outputs: Floats) -> Any:
        """See NumpyHead."""
        pairs = zip(self._heads, self._outputs, strict=True)
        return self._packed([head.greedy(outputs[..., place]) for head, place in pairs])

    def sample(self, outputs: Floats, noise: Floats) -> Any:
        """See NumpyHead."""
        triples = zip(self._heads, self._outputs, self._noises, strict=True)
        return self._packed([head.sample(outputs[..., o], noise[..., n]) for head, o, n in triples])

    def perturbed(self, outputs: Floats, noise: Floats) -> Any:
        """See NumpyHead; no deterministic actor has this head."""
        raise NotImplementedError("noise on a nest of actions")

    def arrays(self, kernel: Floats, bias: Floats) -> dict[str, Floats]:
        """Returns the arrays of each leaf's head, as `<leaf>.<name>`."""
        return {
            f"{leaf}.{name}": value
            for leaf, head, place in zip(self._names, self._heads, self._outputs, strict=True)
            for name, value in head.arrays(kernel[:, place], bias[place]).items()
        }

    def _packed(self, actions: Sequence[Any]) -> Any:
        return tree.unflatten_as(self._action_spec, actions)


def _places(sizes: Sequence[int]) -> list[slice]:
    """Returns the slices of parts of these sizes in a row of all."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
