"""Counts the floating-point operations of one gradient step of SAC."""

from collections.abc import Sequence


def dense_flops(batch_size: int, num_inputs: int, num_outputs: int) -> int:
    """Returns the multiplications and additions of one matrix product [batch, in] x [in, out]."""
    return 2 * batch_size * num_inputs * num_outputs


def mlp_flops(batch_size: int, layer_sizes: Sequence[int]) -> int:
    """Returns the operations of a forward pass; `layer_sizes` goes from input to output."""
    return sum(
        dense_flops(batch_size, num_inputs, num_outputs)
        for num_inputs, num_outputs in zip(layer_sizes, layer_sizes[1:], strict=False)
    )


def sac_update_flops(
    observation_size: int, action_size: int, hidden: Sequence[int], batch_size: int
) -> int:
    """Returns the operations of matrix products in one update of two critics, actor and alpha.

    A backward pass takes one product per layer for the gradient of its weights and one for the
    gradient of its input, which the first layer does not need:
      critics: actor forward (next action); two targets forward; two critics forward, backward;
      actor: actor forward, backward; two critics forward and backward to the action alone.
    Alpha uses the log-probability of the actor's update. Elementwise sums are left out: they are
    1/256 of a product. Source: Haarnoja et al. 2018, arXiv:1812.05905, algorithm 1.
    """
    actor_sizes = [observation_size, *hidden, 2 * action_size]  # mean and standard deviation
    critic_sizes = [observation_size + action_size, *hidden, 1]
    actor = mlp_flops(batch_size, actor_sizes)
    critic = mlp_flops(batch_size, critic_sizes)
    actor_first = dense_flops(batch_size, *actor_sizes[:2])
    critic_first = dense_flops(batch_size, *critic_sizes[:2])
    to_action = dense_flops(batch_size, action_size, hidden[0])
    critics_update = actor + 2 * critic + 2 * (critic + critic + critic - critic_first)
    actor_update = (
        actor + (actor + actor - actor_first) + 2 * (critic + critic - critic_first + to_action)
    )
    return critics_update + actor_update
