"""Small networks with a state, made like the feed-forward ones."""

from tfagents_system.networks.actor_networks import MlpActorNetwork, acting_network
from tfagents_system.networks.critic_networks import MlpCriticNetwork, SummarizingCriticNetwork
from tfagents_system.networks.summarizers import RecurrentSummarizer


def recurrent_actor(
    observation_spec,
    action_spec,
    fc_layer_params=(4,),
    preprocessing_combiner=None,
    deterministic=False,
    **kwargs,
):
    summarizer = RecurrentSummarizer(
        observation_spec, preprocessing_combiner=preprocessing_combiner, **{"units": 3} | kwargs
    )
    actor = MlpActorNetwork(
        summarizer.features_spec, action_spec, fc_layer_params, deterministic=deterministic
    )
    return acting_network(actor, summarizer)


def recurrent_critic(
    input_tensor_spec, joint_fc_layer_params=(4,), preprocessing_combiner=None, **kwargs
):
    observation_spec, action_spec = input_tensor_spec
    summarizer = RecurrentSummarizer(
        observation_spec, preprocessing_combiner=preprocessing_combiner, **{"units": 3} | kwargs
    )
    critic = MlpCriticNetwork((summarizer.features_spec, action_spec), joint_fc_layer_params)
    return SummarizingCriticNetwork(summarizer, critic)
