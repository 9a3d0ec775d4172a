import pytest
from fakes import UNRIVALLED, FakeClock

from tfagents_system.core.errors import StorageError
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.learning import last_save
from tfagents_system.learning.last_save import LastSave
from tfagents_system.learning.save_record import SaveRecord


class FakeCheckpointer:
    """Saves as often as it is allowed to; `failures` are the reasons why it does not before."""

    def __init__(self, failures=(), saved_at=None, lacks_space=False):
        self.record = SaveRecord()
        if saved_at is not None:
            self.record.succeed(saved_at)
        self.failures, self.lacks_space = list(failures), lacks_space
        self.train_step = 500
        self.is_slow = False

    def save(self):
        self.record.begin()
        if self.failures:
            self.record.fail(self.failures.pop(0))
        elif not self.is_slow:
            self.record.succeed(self.train_step)
        return True

    def wait(self, timeout_secs):
        return not self.is_slow


class FakeExporter:
    lacks_space = False

    def __init__(self, problems=()):
        self.problems, self.problem = list(problems), None

    def export(self):
        self.problem = self.problems.pop(0) if self.problems else None
        return self.problem is None


@pytest.fixture
def make_save(tmp_path, monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(last_save.time, "monotonic", clock)
    monkeypatch.setattr(last_save.time, "sleep", clock.sleep)

    def make(checkpointer, exporter=None):
        exporter, paths = exporter or FakeExporter(), ExperimentPaths(tmp_path)
        return LastSave(checkpointer, exporter, paths, UNRIVALLED, lambda: True), paths

    return make


def test_a_stop_whose_save_fails_says_what_is_lost_and_where_the_run_goes_on(make_save):
    save, _ = make_save(FakeCheckpointer(["Input/output error"], saved_at=300))
    with pytest.raises(StorageError) as error:
        save.on_stop(500)
    assert str(error.value).startswith("the last 200 train steps are not saved: nothing has been ")
    assert "(1 attempt): Input/output error. " in str(error.value)
    assert str(error.value).endswith("The same command resumes from train step 300.")


def test_a_stop_without_any_checkpoint_says_that_the_run_begins_anew(make_save):
    save, _ = make_save(FakeCheckpointer(["Input/output error"]))
    with pytest.raises(StorageError, match="the same command starts again from nothing"):
        save.on_stop(500)


def test_a_stop_whose_save_is_not_finished_in_time_says_so(make_save):
    checkpointer = FakeCheckpointer(saved_at=300)
    checkpointer.is_slow = True
    save, _ = make_save(checkpointer)
    with pytest.raises(StorageError, match="their checkpoint was not finished in time"):
        save.on_stop(500)


def test_a_stop_is_saved_if_this_state_was_before(make_save):
    save, _ = make_save(FakeCheckpointer(["Input/output error"], saved_at=500))
    save.on_stop(500)


def test_the_end_is_tried_again_until_all_is_saved(make_save):
    save, paths = make_save(FakeCheckpointer(["EIO"] * 3), FakeExporter(["EIO", None, "EIO"]))
    reports = []
    assert save.at_end(
        500, {"num_iter": 10}, False, lambda: reports.append(paths.finished.exists())
    )
    assert reports == [False] * 3
    assert read_json(paths.finished) == {"train_step": 500, "num_iter": 10}


def test_an_end_that_cannot_be_saved_is_told_and_is_no_finish(make_save):
    save, paths = make_save(FakeCheckpointer(["EIO"] * 1000, saved_at=300))
    with pytest.raises(StorageError, match="the last 200 train steps are not saved"):
        save.at_end(500, {"num_iter": 10}, False, lambda: None)
    assert not paths.finished.exists()


def test_an_end_whose_policy_cannot_be_exported_is_no_finish(make_save):
    save, paths = make_save(FakeCheckpointer(), FakeExporter(["DISK ERROR: policy"] * 1000))
    with pytest.raises(StorageError, match="its checkpoint is saved, but .*DISK ERROR: policy"):
        save.at_end(500, {"num_iter": 10}, False, lambda: None)
    assert not paths.finished.exists()


def test_an_end_waits_without_limit_for_space(make_save):
    num_attempts = 2 * int(last_save.SAVE_TIMEOUT_SECS / last_save.RETRY_PERIOD_SECS)
    save, paths = make_save(FakeCheckpointer(["full"] * num_attempts, lacks_space=True))
    assert save.at_end(500, {"num_iter": 10}, False, lambda: None)
    assert paths.finished.exists()
