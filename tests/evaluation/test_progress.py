"""The progress line of an evaluation."""

from fakes import FakeClock

from tfagents_system.evaluation.progress import EvaluationProgress


def test_the_first_episode_is_expected_to_last_until_the_horizon():
    clock = FakeClock()
    progress = EvaluationProgress(2, 1000, clock)
    for _ in range(500):
        progress.step(1.5)
    clock.sleep(50)
    assert 50 / 500 * (2 * 1000 - 500) == 150  # seconds: a quarter is done
    assert progress.line() == (
        "[#####...............] 0 of 2 episodes; step 500 of 1,000, return 750; 2 min 30 s left"
    )


def test_later_ones_are_expected_to_last_as_long_as_those_before():
    clock = FakeClock()
    progress = EvaluationProgress(3, 1000, clock)
    for length in (80, 120):
        for _ in range(length):
            progress.step(-1.0)
        progress.end_episode()
    progress.step(-0.5)
    clock.sleep(20.1)
    assert 20.1 / 201 * (100 - 1) == 9.9
    assert progress.line() == (
        "[#############.......] 2 of 3 episodes; step 1 of 1,000, return -0.5; 10 s left"
    )
    for _ in range(150):  # longer than those before
        progress.step(0.0)
    assert progress.line().endswith("; 0 s left")
