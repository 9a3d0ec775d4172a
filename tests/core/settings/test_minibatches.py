import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.minibatches import (
    check_minibatches,
    num_fresh_samples,
    num_samples_in_flight,
    samples_by_source,
    trains_offline,
)
from tfagents_system.core.settings.training_settings import TrainingSettings


@pytest.mark.parametrize(
    "values, samples, num_fresh",
    [
        ({}, {"replay": 256}, 64),
        ({"demonstration_share": 0.25}, {"replay": 256}, 64),  # of nothing
        ({"demonstrations": "demos"}, {"replay": 128, "demonstrations": 128}, 64),
        ({"demonstrations": "demos", "demonstration_share": 0.0}, {"replay": 256}, 64),
        ({"keep_interventions": True}, {"replay": 128, "demonstrations": 128}, 64),
        ({"demonstrations": "demos", "keep_interventions": True, "demonstration_share": 0.25},
         {"replay": 192, "demonstrations": 64}, 64),
        ({"demonstrations": ["a", "b"], "demonstration_share": 0.9, "fresh_samples_per_step": None},
         {"replay": 26, "demonstrations": 230}, 26),
        ({"demonstrations": "demos", "demonstration_share": 1}, {"demonstrations": 256}, 64),
    ],
)  # fmt: skip
def test_each_source_has_its_share_of_a_minibatch(values, samples, num_fresh):
    settings = TrainingSettings(**values)
    assert samples_by_source(settings) == samples
    assert num_fresh_samples(settings) == num_fresh
    # Offline, items are as if the replay buffer provided all.
    assert num_samples_in_flight(settings) == 3 * samples.get("replay", 256)
    assert trains_offline(settings) == ("replay" not in samples)
    check_minibatches(settings, "mine")


def test_a_share_of_no_sample_is_refused():
    settings = TrainingSettings(demonstrations="demos", demonstration_share=0.001)
    with pytest.raises(ConfigError, match=r"^mine: The share of demonstrations .* is 0\.001"):
        check_minibatches(settings, "mine")


def test_interventions_that_would_not_be_drawn_are_refused():
    settings = TrainingSettings(keep_interventions=True, demonstration_share=0.0)
    with pytest.raises(ConfigError, match="^mine: keep_interventions is True and demonstration_sh"):
        check_minibatches(settings, "mine")


def test_offline_training_without_data_is_refused():
    settings = TrainingSettings(demonstration_share=1)
    with pytest.raises(ConfigError, match=r"^mine: .* demonstrations is None.* --offline DATASET"):
        check_minibatches(settings, "mine")
    settings.demonstrations, settings.keep_interventions = "demos", True
    with pytest.raises(ConfigError, match="keep_interventions is True and demonstration_share is"):
        check_minibatches(settings, "mine")


def test_returns_over_steps_need_a_pool_for_the_samples_of_the_replay_buffer():
    settings = TrainingSettings(demonstrations="demos", n_step_returns=3, train_batch_size=128)
    message = r"\(64\) is not below the rest of train_batch_size \(64\)"
    with pytest.raises(ConfigError, match=message):
        check_minibatches(settings, "mine")
    settings.train_batch_size = 256
    check_minibatches(settings, "mine")
