"""Names values as ML-Agents does in TensorBoard, for dashboards that know its tags."""

from collections.abc import Mapping

from tfagents_system.core.settings.reward_signals import EXTRINSIC, SIGNALS

_COEFFICIENTS = ("Policy/Continuous Entropy Coeff", "Policy/Discrete Entropy Coeff")
_EXTRINSIC_VALUE = ("Policy/Extrinsic Value", "Policy/Extrinsic Value Estimate")
# By our tag: the tags of ML-Agents 1.0, and of earlier versions if different; the last counts.
_TAGS: Mapping[str, tuple[str, ...]] = {
    "collect/episode_return": ("Environment/Cumulative Reward", "Policy/Extrinsic Reward"),
    "collect/episode_length": ("Environment/Episode Length",),
    "learner/actor_loss": ("Losses/Policy Loss",),
    "learner/state_value_loss": ("Losses/Value Loss",),
    "learner/cloning_loss": ("Losses/Pretraining Loss",),
    "learner/curiosity_forward_loss": ("Losses/Curiosity Forward Loss",),
    "learner/curiosity_inverse_loss": ("Losses/Curiosity Inverse Loss",),
    "learner/rnd_loss": ("Losses/RND Loss",),
    "learner/gail_loss": ("Losses/GAIL Loss",),
    "learner/gail_information": ("Losses/GAIL KL Loss",),
    "learner/gail_beta": ("Policy/GAIL Beta",),
    "learner/gail_gradient_penalty": ("Policy/GAIL Grad Mag Loss",),
    "learner/gail_policy_estimate": ("Policy/GAIL Policy Estimate",),
    "learner/gail_expert_estimate": ("Policy/GAIL Expert Estimate",),
    "learner/curiosity_reward": ("Policy/Curiosity Reward",),
    "learner/rnd_reward": ("Policy/Rnd Reward",),
    "learner/gail_reward": ("Policy/Gail Reward", "Policy/GAIL Reward"),
    "learner/curiosity_value": ("Policy/Curiosity Value", "Policy/Curiosity Value Estimate"),
    "learner/rnd_value": ("Policy/Rnd Value",),
    "learner/gail_value": ("Policy/Gail Value", "Policy/GAIL Value Estimate"),
    "learner/entropy": ("Policy/Entropy",),
    "learner/actor_learning_rate": ("Policy/Learning Rate",),
    "learner/alpha": ("Policy/Entropy Coeff", *_COEFFICIENTS),
    # After alpha, which stands for both unless an action has both kinds of parts.
    "learner/continuous_alpha": _COEFFICIENTS[:1],
    "learner/discrete_alpha": _COEFFICIENTS[1:],
    "learner/q_value": _EXTRINSIC_VALUE,
    "learner/extrinsic_value": _EXTRINSIC_VALUE,
}
_OF_OTHER_STREAMS = {f"learner/{name}_value" for name in SIGNALS if name != EXTRINSIC}
_LESSON, _CRITICS = "lesson/", "learner/critic_loss"
_COLLECT = "collect/episode_return"


def mlagents_scalars(step: int, scalars: Mapping[str, float]) -> dict[str, float]:
    """Returns the values that ML-Agents also records, by its tags.

    `Losses/Q1 Loss` and `Losses/Q2 Loss` are each half of the critics' loss, which is the sum over
    critics; so is `Losses/Value Loss` without a state-value network, because then only the critics
    have values. `Policy/Extrinsic Value` covers the environment's rewards alone, so it is missing
    if there are only other rewards. Lessons count from 0.

    Args:
      step: Of the values: env steps of a worker, train steps of the learner.
      scalars: By our tags.
    """
    known = scalars.keys() & _TAGS.keys()
    if _OF_OTHER_STREAMS & known:
        known.discard("learner/q_value")  # the mean over all streams
    named = {tag: scalars[ours] for ours, tags in _TAGS.items() if ours in known for tag in tags}
    for ours, value in scalars.items():
        if ours.startswith(_LESSON):
            named[f"Environment/Lesson Number/{ours.removeprefix(_LESSON)}"] = value - 1
    if _CRITICS in scalars:
        half = scalars[_CRITICS] / 2
        named |= {"Losses/Q1 Loss": half, "Losses/Q2 Loss": half}
        named.setdefault("Losses/Value Loss", half)
    if _COLLECT in scalars:
        named |= {"Step": float(step), "Is Training": 1.0}
    return named
