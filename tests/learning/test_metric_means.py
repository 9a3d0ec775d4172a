import pytest

from tfagents_system.learning.metric_means import MetricMeans


def metrics_of(critic_loss, actor_losses, entropies, num_steps):
    """Means over the steps of a call, in which the actor has updates with these losses."""
    sums = {"actor_loss": sum(actor_losses), "entropy": sum(entropies)}
    sums |= {"actor_steps": len(actor_losses)}
    means = {name: total / num_steps for name, total in sums.items()}
    return means | {"critic_loss": critic_loss, "loss": critic_loss + means["actor_loss"]}


def test_means_are_over_all_train_steps_of_all_calls():
    means = MetricMeans()
    means.add({"loss": 4.0, "data_wait_secs": 0.5}, num_steps=30)
    means.add({"loss": 1.0, "data_wait_secs": 0.0}, num_steps=10)
    expected = {"loss": (30 * 4 + 10 * 1) / 40, "data_wait_secs": 30 * 0.5 / 40}
    assert means.take() == pytest.approx(expected)
    means.add({"loss": 7.0}, num_steps=1)
    assert means.take() == {"loss": 7.0}


def test_those_of_the_actor_are_over_its_train_steps_however_few():
    means = MetricMeans()
    # 50 steps with a delay of 20: two of the actor, none among the last.
    means.add(metrics_of(1.0, [-3, -5], [2.0, 1.0], num_steps=43), num_steps=43)
    means.add(metrics_of(2.0, [], [], num_steps=7), num_steps=7)
    critic_loss = (43 * 1 + 7 * 2) / 50
    assert means.take() == pytest.approx({
        "critic_loss": critic_loss, "actor_loss": (-3 - 5) / 2, "entropy": (2 + 1) / 2,
        "loss": critic_loss + (-3 - 5) / 2,
    })  # fmt: skip


def test_without_a_train_step_of_the_actor_there_is_nothing_of_it():
    means = MetricMeans()
    means.add(metrics_of(2.0, [], [], num_steps=7), num_steps=7)
    assert means.take() == {"critic_loss": 2.0}


def test_the_losses_of_an_agent_that_counts_no_such_steps_are_taken_as_they_are():
    means = MetricMeans()
    means.add({"loss": 3.0, "actor_loss": 1.0}, num_steps=5)
    assert means.take() == {"loss": 3.0, "actor_loss": 1.0}
