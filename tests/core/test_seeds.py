import itertools

import pytest

from tfagents_system.core.seeds import SeedPurpose, derive_seed


def test_derived_seeds_differ_by_each_argument():
    inputs = list(itertools.product(
        range(5), SeedPurpose, range(10), (0, 1, 10**10), range(3), (0, 1, 7)
    ))  # fmt: skip
    derived = {derive_seed(*arguments) for arguments in inputs}
    assert len(derived) == len(inputs)


def test_no_argument_reaches_into_another():
    """NumPy splits numbers into words of 32 bits and pads with zeros."""
    large, purpose = 2**32, SeedPurpose.EVAL_ENV
    derived = [
        derive_seed(7, purpose, 5, env_step=4),
        derive_seed(7, purpose, 5, env_step=4 + 3 * large),
        derive_seed(7, purpose, 5, env_step=4, num_failures=3),
        derive_seed(7, purpose, 5, env_step=4, start=3),
        derive_seed(7 + 3 * large, purpose, 5, env_step=4),
        derive_seed(7 + purpose * large, SeedPurpose(5), 4),
    ]
    assert len(set(derived)) == len(derived)
    with pytest.raises(ValueError, match="beyond 32 bits"):
        derive_seed(7, purpose, large)


def test_no_two_purposes_have_one_value():
    names, values = zip(*SeedPurpose.__members__.items(), strict=True)
    assert len({int(value) for value in values}) == len(names)


def test_the_evaluators_of_a_run_have_another_seed_than_its_tasks():
    tasks = {derive_seed(42, SeedPurpose.TASK, task) for task in range(1000)}
    assert derive_seed(42, SeedPurpose.EVALUATORS) not in tasks


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_derived_seed_is_an_int_that_every_library_takes(seed):
    for purpose in SeedPurpose:
        derived = derive_seed(seed, purpose)
        assert type(derived) is int
        assert 0 <= derived < 2**31


def test_derived_seeds_never_change():
    """Another value would make old runs unrepeatable."""
    assert derive_seed(42, SeedPurpose.LEARNER) == 1297353399
    assert derive_seed(42, SeedPurpose.COLLECT_ENV, 3) == 13771258
    assert derive_seed(42, SeedPurpose.COLLECT_ENV, 3, env_step=0) == 13771258
    assert derive_seed(42, SeedPurpose.COLLECT_ENV, 3, 500, 2) == 612509811
    assert derive_seed(42, SeedPurpose.TASK, 3) == 1032849688
