import os

from benchmarks.ours.train_step import CONTROL, KINDS, make_learner, profile


def test_the_profile_finds_the_products_and_adam_and_counts_no_op_twice():
    step_secs, secs = profile(make_learner(), num_steps=5)

    for part in KINDS.values():
        assert sum(value for op, value in secs.items() if part in op) > 0
    assert secs.keys() & set(CONTROL) == set()
    assert sum(secs.values()) <= step_secs * os.cpu_count()
