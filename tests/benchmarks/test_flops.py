from benchmarks.flops import mlp_flops, sac_update_flops


def test_mlp_flops_counts_a_multiplication_and_an_addition_for_each_weight():
    assert mlp_flops(10, [3, 4, 2]) == 2 * 10 * (3 * 4 + 4 * 2)


def test_sac_update_flops_of_a_small_network_equals_the_sum_of_its_products():
    # Observation 3, action 2, one hidden layer of 5, batch 1. Weights of the layers:
    # actor 3 x 5 and 5 x 4 (mean and standard deviation of 2), critic 5 x 5 and 5 x 1.
    actor_layers, critic_layers = (15, 20), (25, 5)
    actor, critic = sum(actor_layers), sum(critic_layers)
    critics_update = (
        actor  # next action
        + 2 * critic  # targets
        + 2 * critic  # values
        + 2 * critic  # gradient of the weights
        + 2 * critic_layers[1]  # gradient of the hidden layer
    )
    actor_update = (
        actor  # action
        + 2 * critic  # its values
        + 2 * (critic_layers[1] + 2 * 5)  # gradient of the hidden layer, then of the 2 actions
        + actor  # gradient of the weights
        + actor_layers[1]  # gradient of the hidden layer
    )

    assert sac_update_flops(3, 2, (5,), 1) == 2 * (critics_update + actor_update)


def test_sac_update_flops_grows_with_the_batch():
    assert sac_update_flops(28, 8, (256, 256), 256) == 256 * sac_update_flops(28, 8, (256, 256), 1)
