"""The means of metrics over several calls of the learner."""

import collections
from collections.abc import Mapping

from tfagents_system.agents.agent import ACTOR_STEPS, OF_ACTOR


class MetricMeans:
    """Averages metrics over all train steps since the last `take`.

    The actor's metrics are means over the train steps that updated it, and `loss` is the sum of all
    losses averaged this way. Without such a step, these are left out.

    means.add(metrics, num_steps=50)   # of each call of `Learner.run`
    metrics = means.take()
    """

    def __init__(self) -> None:
        """Begins without a train step."""
        self._sums: dict[str, float] = collections.defaultdict(float)
        self._num_steps = 0

    def add(self, metrics: Mapping[str, float], num_steps: int) -> None:
        """Adds means over `num_steps` train steps."""
        self._num_steps += num_steps
        for name, mean in metrics.items():
            self._sums[name] += mean * num_steps

    def take(self) -> dict[str, float]:
        """Returns the means by name, and begins again."""
        sums, num_steps = self._sums, self._num_steps
        self._sums, self._num_steps = collections.defaultdict(float), 0
        num_actor_steps = sums.pop(ACTOR_STEPS, num_steps)
        of_actor = {name: sums.pop(name) for name in OF_ACTOR if name in sums}
        means = {name: total / num_steps for name, total in sums.items()}
        if not num_actor_steps:
            means.pop("loss", None)
            return means
        for name, total in of_actor.items():
            means[name] = total / num_actor_steps
            if name.endswith("_loss"):
                means["loss"] += means[name] - total / num_steps
        return means
