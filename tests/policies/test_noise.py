import numpy as np
import pytest

from tfagents_system.policies.noise import PERIOD, ColoredNoise, OrnsteinUhlenbeckNoise

NUM_EPISODES, NUM_ACTIONS = 400, 3


def episodes_of(beta):
    """Noise [NUM_EPISODES, PERIOD, NUM_ACTIONS]."""
    noise = ColoredNoise(NUM_ACTIONS, beta, np.random.default_rng(0))
    episodes = []
    for _ in range(NUM_EPISODES):
        noise.restart()
        episodes.append([noise.next() for _ in range(PERIOD)])
    return np.array(episodes)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
def test_each_step_is_standard_normal(beta):
    noise = episodes_of(beta)
    assert noise.dtype == np.float32
    for steps in (noise[:, 0], noise[:, 17], noise[:, -1]):
        num = steps.size
        assert abs(steps.mean()) < 4 / np.sqrt(num)
        assert abs(steps.var() - 1) < 4 * np.sqrt(2 / num)
        kurtosis = (steps**4).mean()
        assert abs(kurtosis - 3) < 4 * np.sqrt(96 / num)  # a normal's fourth moment is 3


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_power_falls_with_the_frequency_to_the_beta(beta):
    power = (np.abs(np.fft.rfft(episodes_of(beta), axis=1)) ** 2).mean(axis=(0, 2))
    slow, fast = power[4], power[256]
    assert slow / fast == pytest.approx((256 / 4) ** beta, rel=0.2)


def test_actions_are_independent_of_each_other():
    noise = episodes_of(1.0)
    products = noise[:, ::128, 0] * noise[:, ::128, 1]
    assert abs(products.mean()) < 0.1


def test_noise_goes_on_after_a_period():
    noise = ColoredNoise(1, 1.0, np.random.default_rng(0))
    assert len({float(noise.next()[0]) for _ in range(2 * PERIOD)}) == 2 * PERIOD


def test_an_episode_starts_with_noise_of_its_own():
    noise = ColoredNoise(1, 2.0, np.random.default_rng(0))
    last, first = [], []
    for _ in range(NUM_EPISODES):
        noise.restart()
        steps = [float(noise.next()[0]) for _ in range(10)]  # far from the end of a period
        first.append(steps[0])
        last.append(steps[-1])
    # Brown noise moves by a tenth of its size in a step, but not from one episode to the next.
    assert np.corrcoef(first, last)[0, 1] > 0.9
    assert abs(np.corrcoef(last[:-1], first[1:])[0, 1]) < 4 / np.sqrt(NUM_EPISODES)


def test_ornstein_uhlenbeck_noise_begins_each_episode_at_zero_and_follows_its_recursion():
    noise = OrnsteinUhlenbeckNoise(2, np.random.default_rng(3))
    steps = ColoredNoise(2, 0.0, np.random.default_rng(3))
    for _ in range(2):
        noise.restart()
        expected = np.zeros(2)
        for _ in range(5):
            expected = (1 - 0.15) * expected + steps.next()
            np.testing.assert_allclose(noise.next(), expected, rtol=1e-5)
