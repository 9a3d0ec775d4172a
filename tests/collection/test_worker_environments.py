"""When a worker is worth a new process."""

import types

import pytest

from tfagents_system.collection import worker_environments
from tfagents_system.collection.worker_environments import MAX_FAILURES, MIN_SECS, Environments


@pytest.mark.parametrize(
    ("collect", "evaluation", "lived_secs", "expected"),
    [
        (MAX_FAILURES - 1, 0, 3600.0, False),
        (MAX_FAILURES - 1, 1, 3600.0, True),
        (MAX_FAILURES, 0, MIN_SECS - 1.0, False),
        (0, MAX_FAILURES, MIN_SECS + 1.0, True),
    ],
)
def test_many_failures_of_both_environments_count_after_a_while(
    monkeypatch, collect, evaluation, lived_secs, expected
):
    clock = types.SimpleNamespace(monotonic=lambda: worker_environments._BEGAN + lived_secs)
    monkeypatch.setattr(worker_environments, "time", clock)
    pair = [types.SimpleNamespace(num_failures=n) for n in (collect, evaluation)]
    assert Environments(*pair, None, None, None, None).are_worn is expected
