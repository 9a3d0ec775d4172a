from benchmarks.ours.journal import HORIZON, WARMUP_EPISODES, measure
from tfagents_system.services.journal import Journal


def test_every_second_episode_goes_through_the_journal(tmp_path, monkeypatch):
    num_appended = []
    append = Journal.append

    def counting(journal, steps):
        num_appended.append(len(steps))
        return append(journal, steps)

    monkeypatch.setattr(Journal, "append", counting)

    rates = measure(tmp_path, secs=0.0)

    assert set(rates) == {True, False}
    assert min(rates.values()) > 0
    num_rows = (WARMUP_EPISODES + 1) * (HORIZON + 1)
    num_blocks = (num_rows - 1) // 8  # of nine rows, which share one with the next block
    assert 9 * num_blocks - 54 < sum(num_appended) <= 9 * num_blocks  # the last burst is not sent
