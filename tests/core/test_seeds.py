import itertools

import pytest

from tfagents_system.core.seeds import SeedPurpose, derive_seed


def test_derived_seeds_differ_by_each_argument():
    inputs = list(itertools.product(range(5), SeedPurpose, range(20), (0, 1, 10**10), range(3)))
    derived = {derive_seed(*arguments) for arguments in inputs}
    assert len(derived) == len(inputs)


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
