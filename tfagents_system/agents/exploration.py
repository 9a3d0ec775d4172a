"""What a deterministic agent acts with while it collects."""

from tf_agents.policies import actor_policy, gaussian_policy

from tfagents_system.networks.heads import BoxHead


class NoisyPolicy(gaussian_policy.GaussianPolicy):
    """The actor's action with noise, clipped to the bounds.

    As a policy of TensorFlow it has white Gaussian noise. Workers act in NumPy where they can, with
    noise that may be correlated in time; see policies/acting.py.
    """

    def __init__(self, policy: actor_policy.ActorPolicy, std: float, is_ornstein_uhlenbeck: bool):
        """`std` is that of actions scaled to [-1, 1]."""
        magnitude = BoxHead(policy.action_spec).magnitude
        super().__init__(policy, scale=std * magnitude, clip=True)
        self.actor_policy = policy
        self.std = std
        self.is_ornstein_uhlenbeck = is_ornstein_uhlenbeck
