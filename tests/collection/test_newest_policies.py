from fakes import FakeClock

from tfagents_system.collection.newest_policies import NewestPolicies
from tfagents_system.services.versions import PolicyVersion


class TapePolicies:
    def __init__(self):
        self.updates = []

    def update(self, values):
        self.updates.append(values)


class SlowReader:
    """Counts refreshes, each of which takes `secs`; `server` is what the server has."""

    def __init__(self, clock, secs):
        self._clock, self._secs = clock, secs
        self.latest = self.server = None
        self.num_refreshes = 0

    def refresh(self, timeout_secs):
        self.num_refreshes += 1
        self._clock.sleep(min(self._secs, timeout_secs))
        self.latest = self.server


def test_each_version_is_taken_once():
    clock, tape = FakeClock(), TapePolicies()
    reader = SlowReader(clock, 0.001)
    policies = NewestPolicies(tape, reader, clock)
    policies.take()
    assert (policies.is_published, policies.train_step) == (False, 0)
    reader.latest = PolicyVersion(7, ["seventh"])
    policies.take()
    policies.take()
    assert (policies.is_published, policies.train_step) == (True, 7)
    assert tape.updates == [["seventh"]]


def test_a_pull_that_is_needed_always_asks_and_others_take_two_percent_of_the_time():
    clock, tape = FakeClock(), TapePolicies()
    reader = SlowReader(clock, 0.001)
    policies = NewestPolicies(tape, reader, clock)
    policies.pull(is_needed=True)
    assert reader.num_refreshes == 0  # before the first version there is nothing to wait for
    reader.latest = reader.server = PolicyVersion(1, [])
    policies.take()
    for train_step in range(2, 12):
        reader.server = PolicyVersion(train_step, [])
        policies.pull(is_needed=True)
        assert policies.train_step == train_step
    assert reader.num_refreshes == 10
    begin, reader.num_refreshes = clock.now, 0
    while clock.now < begin + 1.0:  # of episodes that take 2 ms
        clock.sleep(0.002)
        policies.pull(is_needed=False)
    assert 15 <= reader.num_refreshes <= 20  # 1 ms each


def test_the_age_is_that_of_the_newest_arrival_taken_or_not():
    clock = FakeClock()
    reader = SlowReader(clock, 0.001)
    policies = NewestPolicies(TapePolicies(), reader, clock)
    clock.sleep(100)
    assert policies.age_secs is None
    reader.latest = PolicyVersion(7, [])
    assert policies.age_secs == 0
    clock.sleep(30)
    policies.take()
    assert policies.age_secs == 30
    reader.latest = PolicyVersion(8, [])
    assert policies.age_secs == 0
