from benchmarks.flops import sac_update_flops
from benchmarks.ours.train_step import ACTION, BATCH, HIDDEN, OBSERVATION, PRODUCTS


def test_the_products_are_all_those_of_an_update():
    flops = sum(2 * m * k * n * count for m, k, n, _, count in PRODUCTS)
    wanted = sac_update_flops(OBSERVATION, ACTION, (HIDDEN, HIDDEN), BATCH)
    # The gradient that goes on to the policy is taken of observation and action together.
    assert flops == wanted + 2 * 2 * BATCH * HIDDEN * OBSERVATION
