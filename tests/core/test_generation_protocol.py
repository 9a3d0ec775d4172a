"""Two cores of one run at the same checkpoints, one of them frozen at every system call."""

import contextlib
import itertools
import os
import pathlib
import shutil

import pytest

from tfagents_system.core.errors import SupersededError
from tfagents_system.core.state import generations as lib
from tfagents_system.core.state.incarnation import CORE, Claims, Fence

CALLS = ("replace", "rename", "listdir", "scandir", "mkdir", "rmdir", "unlink", "open", "stat",
         "lstat", "fsync", "link")  # fmt: skip
MOST_CALLS_AFTER = 10  # of a core that wakes up: it is killed at each of them


class Killed(BaseException):
    """Nothing catches it, so what it interrupts stays as it is."""


class Core:
    """A start of the core of the run in `folder`; the higher its number, the later."""

    def __init__(self, folder, name):
        self.root, self.name = folder / "checkpoints", name
        claims = Claims(folder / "incarnations")
        self.fence = Fence(claims, CORE, claims.claim(CORE))

    def start(self):
        lib.clear_unfinished(self.root, self.fence)
        return lib.newest_intact_generation(self.root)

    def publish(self, *train_steps):
        for train_step in train_steps:
            unfinished = lib.unfinished_dir(self.root, train_step, self.fence)
            with contextlib.suppress(SupersededError, OSError):  # then the save is given up
                (unfinished / "learner").mkdir(parents=True)
                (unfinished / "learner" / "state").write_text(f"{self.name} {train_step}")
                lib.publish_generation(unfinished, self.root, train_step, {}, self.fence)


class Interruption:
    """Calls `action` at the `number`-th system call of the block; kills it `num_more` calls later.

    The system calls of `action` count for nothing.
    """

    def __init__(self, monkeypatch, number, action, num_more=None):
        self.count = 0
        self._number, self._action, self._num_more = number, action, num_more
        self._monkeypatch, self._is_counting = monkeypatch, True

    def __enter__(self):
        self._context = self._monkeypatch.context()
        patch = self._context.__enter__()
        for name in CALLS:
            patch.setattr(os, name, self._wrap(getattr(os, name)))
        return self

    def __exit__(self, kind, error, traceback):
        self._context.__exit__(None, None, None)
        return kind is Killed

    def _wrap(self, call):
        def wrapped(*arguments, **options):
            if self._is_counting:
                self.count += 1
                if self.count == self._number:
                    self._is_counting = False
                    self._action()
                    self._is_counting = True
                if self._num_more is not None and self.count > self._number + self._num_more:
                    raise Killed
            return None if call is fsync else call(*arguments, **options)

        return wrapped


fsync = os.fsync


@pytest.fixture
def make_run(tmp_path):
    """Returns a function that makes a run whose first core has saved at 100 and 200."""
    numbers = itertools.count()
    home = pathlib.Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path
    folder = home / f"generation_protocol_{os.getpid()}"

    def make():
        run = folder / str(next(numbers))
        older = Core(run, "older")
        older.publish(100, 200)
        return run, older

    yield make
    shutil.rmtree(folder)


def newest_text(run):
    return (lib.newest_intact_generation(run / "checkpoints") / "learner/state").read_text()


OLDER = {  # what the older core is doing when it is frozen
    "publishes an earlier step": lambda core: core.publish(300),
    "publishes the same step as the later one before": lambda core: core.publish(400),
    "publishes the same step as the later one": lambda core: core.publish(500),
    "publishes a later step": lambda core: core.publish(600),
    "replaces its own": lambda core: core.publish(200),
    "starts": lambda core: core.start(),
}


def later_core(run):
    def act():
        core = Core(run, "later")
        core.start()
        core.publish(400, 500)

    return act


@pytest.mark.parametrize("case", OLDER)
def test_an_older_core_that_wakes_up_anywhere_harms_nothing_of_a_later_one(
    make_run, monkeypatch, case
):
    for number in itertools.count(1):
        run, older = make_run()
        with Interruption(monkeypatch, number, later_core(run)) as interruption:
            OLDER[case](older)
        if interruption.count < number:
            break
        assert newest_text(run) == "later 500", number
        kept = {path.name for path in lib.generations(run / "checkpoints")}
        assert {"0000000400", "0000000500"} <= kept, number
    assert number > 10


@pytest.mark.parametrize("case", list(OLDER)[:2])
def test_an_older_core_that_is_killed_after_it_woke_up_harms_nothing_either(
    make_run, monkeypatch, case
):
    is_last = False
    for number in itertools.count(1):
        for num_more in range(MOST_CALLS_AFTER):
            run, older = make_run()
            with Interruption(monkeypatch, number, later_core(run), num_more) as interruption:
                OLDER[case](older)
            is_last = interruption.count < number
            if is_last:
                break
            assert newest_text(run) == "later 500", (number, num_more)
            Core(run, "last").start()
            assert newest_text(run) == "later 500", (number, num_more)
        if is_last:
            break
    assert number > 10


@pytest.mark.parametrize("case", OLDER)
def test_a_later_core_is_not_harmed_by_an_older_one_at_any_of_its_calls(
    make_run, monkeypatch, case
):
    for number in itertools.count(1):
        run, older = make_run()
        with Interruption(monkeypatch, number, lambda core=older: OLDER[case](core)) as later:
            later_core(run)()
        if later.count < number:
            break
        assert newest_text(run) == "later 500", number
    assert number > 10


@pytest.mark.parametrize("train_step", [200, 300])
def test_whoever_looks_at_any_moment_of_a_save_finds_a_whole_generation(
    make_run, monkeypatch, train_step
):
    texts = set()
    for number in itertools.count(1):
        run, older = make_run()
        with Interruption(monkeypatch, number, lambda run=run: texts.add(newest_text(run))) as save:
            older.publish(train_step)
        if save.count < number:
            break
    assert texts == {"older 200", f"older {train_step}"}
