"""The collect policy of deterministic agents: the actor's action with noise."""

from tf_agents.policies import actor_policy, gaussian_policy

from tfagents_system.networks.box_head import BoxHead


class NoisyPolicy(gaussian_policy.GaussianPolicy):
    """Adds noise to the actor's action, and clips it to the bounds.

    In TensorFlow the noise is white and Gaussian. Workers act in NumPy if they can, with noise that
    may be correlated in time; see policies/acting.py.
    """

    def __init__(self, policy: actor_policy.ActorPolicy, std: float, is_ornstein_uhlenbeck: bool):
        """`std` refers to actions scaled to [-1, 1]."""
        magnitude = BoxHead(policy.action_spec).magnitude
        super().__init__(policy, scale=std * magnitude, clip=True)
        self.actor_policy = policy
        self.std = std
        self.is_ornstein_uhlenbeck = is_ornstein_uhlenbeck
