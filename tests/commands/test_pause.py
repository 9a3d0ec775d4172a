"""`sac pause` and `sac resume`, beside programs that only report."""

import fcntl
import threading

import pytest
from report_fakes import learner_report, replay_report, worker_report, write_report

from tfagents_system.commands.pause import pause, resume
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.pause import paused
from tfagents_system.core.state.reports import Phase


@pytest.fixture
def paths(tmp_path):
    """A running experiment: this test holds its lock."""
    paths = ExperimentPaths(tmp_path / "arm")
    paths.episodes.mkdir(parents=True)
    with paths.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield paths


def write_reports(paths, sequence, learner=Phase.TRAINING, workers=(Phase.COLLECTING,) * 2):
    write_report(paths, replay_report(sequence=sequence))
    write_report(paths, learner_report(sequence=sequence, phase=learner))
    for worker_id, phase in enumerate(workers):
        write_report(paths, worker_report(worker_id, sequence=sequence, phase=phase))


class Pausing(threading.Thread):
    """`sac pause` in a thread of its own."""

    def __init__(self, paths, **arguments):
        super().__init__(target=pause, args=[paths.root], kwargs=arguments, daemon=True)
        self.start()

    def waits(self):
        self.join(0.7)  # it looks every 0.2 s
        return self.is_alive()


def test_it_waits_until_every_program_has_reported_the_pause_anew(paths, capsys):
    write_reports(paths, 1, Phase.PAUSED, [Phase.PAUSED] * 2)  # of an earlier pause
    pausing = Pausing(paths)
    assert pausing.waits()
    assert paused(paths) == ("collection", "learning")
    write_reports(paths, 2, Phase.PAUSED, [Phase.PAUSED, Phase.EVALUATING])
    assert pausing.waits()
    write_reports(paths, 3, Phase.PAUSED, [Phase.PAUSED, Phase.STOPPED])
    pausing.join(10)
    out = capsys.readouterr().out
    assert "Waiting for learner, worker_0, worker_1.\n" in out
    assert f"collection and learning of {paths.root} are paused, as every program has" in out


def test_a_pause_of_collection_does_not_wait_for_the_learner(paths, capsys):
    write_reports(paths, 1)
    pausing = Pausing(paths, only="collection")
    assert pausing.waits()
    write_reports(paths, 2, Phase.TRAINING, [Phase.PAUSED] * 2)
    pausing.join(10)
    assert paused(paths) == ("collection",)
    assert f"collection of {paths.root} is paused, as" in capsys.readouterr().out


def test_it_ends_if_somebody_resumes_meanwhile(paths, capsys):
    write_reports(paths, 1)
    pausing = Pausing(paths)
    assert pausing.waits()
    resume(paths.root)
    pausing.join(10)
    assert not pausing.is_alive()
    assert f"{paths.root} was resumed meanwhile" in capsys.readouterr().out


def test_a_pause_of_a_run_that_has_ended_is_for_its_next_start(tmp_path, capsys):
    folder = tmp_path / "my run"
    paths = ExperimentPaths(folder)
    paths.episodes.mkdir(parents=True)
    pause(folder)
    out = capsys.readouterr().out
    assert "are paused: no program runs, and the next start pauses, too" in out
    assert f"To continue: sac resume '{folder}'\n" in out
    resume(folder)
    assert paused(paths) == ()
    assert "is no longer paused; no program runs" in capsys.readouterr().out
    resume(folder)
    assert "is not paused" in capsys.readouterr().out


def test_resume_of_a_running_experiment(paths, capsys):
    write_reports(paths, 1)
    paths.pause.write_text('["learning"]')
    resume(paths.root)
    assert paused(paths) == ()
    assert f"learning of {paths.root} continues within a second" in capsys.readouterr().out
