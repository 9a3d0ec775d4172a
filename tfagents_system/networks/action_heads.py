"""Chooses the head for an action space."""

import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.core.nests import Nest
from tfagents_system.networks.box_head import BoxHead
from tfagents_system.networks.discrete_head import DiscreteHead
from tfagents_system.networks.heads import ActionHead, unsupported_action
from tfagents_system.networks.nested_head import Leaf, NestedHead


def action_head(action_spec: Nest) -> ActionHead:
    """Returns the head for an environment's action.

    Raises:
      ConfigError: If there is no head for it.
    """
    if tf.nest.is_nested(action_spec) and tf.nest.flatten(action_spec):
        return NestedHead(action_spec, [_leaf_head(leaf) for leaf in tf.nest.flatten(action_spec)])
    return _leaf_head(action_spec)


def _leaf_head(action_spec: Nest) -> Leaf:
    if not isinstance(action_spec, tensor_spec.BoundedTensorSpec):
        raise unsupported_action(action_spec)
    return BoxHead(action_spec) if action_spec.dtype.is_floating else DiscreteHead(action_spec)
