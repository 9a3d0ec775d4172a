"""A run in which a person takes over, and everything is killed."""

import collections

import pytest
import tensorflow as tf
from faults.experience import LAYOUT, life_and_step, stored_steps
from faults.recovery import ENDLESS, await_nothing_missing, kill_in_turn, stop
from replay_fakes import EpisodeStepEnv, codec_of
from system.tiny_run import HORIZON, TinyRun

from tfagents_system.core.errors import EXIT_CONFIG
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.services.intervention_files import InterventionReader

pytestmark = pytest.mark.system

# Half of a minibatch of 16 is more than the fresh samples, as usual. While the file "person"
# exists, a person takes over in every third env step and writes it down.
PARAMS = """
    train_batch_size = 16
    keep_interventions = True
    log_period_itrs = 1

    class TakenOver(TinyEnv):
        def get_info(self):
            step = TinyEnv.num_steps_of_process
            if self._worker_id is None or step % 3 or not (self._folder / "person").exists():
                return {"intervention": False}
            if step != getattr(self, "_noted", None):
                self._noted = step
                with (self._folder / f"taken_over_{LIFE}").open("a") as tape:
                    tape.write(f"{step}\\n")
            return {"intervention": True, "action": [0.125]}

    def env_ctor(self, *args, seed=None, worker_id=None, **kwargs):
        return self.TakenOver(self.env_config["folder"], worker_id)
"""


@pytest.fixture
def make_run(tmp_path):
    runs = []

    def make(more_params):
        runs.append(TinyRun(tmp_path, PARAMS + more_params))
        return runs[-1]

    yield make
    for run in runs:
        run.end()


def taken_over(run):
    """The env steps that a person has written down, as `life_and_step` names them."""
    return {
        (int(tape.name.removeprefix("taken_over_")), int(line))
        for tape in run.folder.glob("taken_over_*")
        for line in tape.read_text().split()
    }


def kept_steps(run):
    """Counts how often each env step is kept, and checks that the person has acted in it."""
    reader = SampleReader(codec_of(EpisodeStepEnv()), LAYOUT)
    found = collections.Counter()
    for columns, starts in InterventionReader(run.paths.interventions, reader).new_samples():
        windows = [column[[[start, start + 1] for start in starts]] for column in columns]
        transitions = reader.unpack(windows)
        assert (transitions.action == 0.125).all()
        found.update(map(life_and_step, transitions.next_observation))
    return found


def shares(run):
    """The shares of interventions that both workers report."""
    numbers = [run.status(f"worker_{index}")["numbers"] for index in range(2)]
    return [of_worker.get("interventions", 0) for of_worker in numbers]


def numbers_of_kept(run):
    """Reads the number of kept interventions in TensorBoard, by train step."""
    return {
        event.step: value.simple_value
        for file in sorted(run.paths.train_summaries.rglob("events*"))
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
        if value.tag == "learner/kept_interventions"
    }


def test_interventions_are_kept_once_each_through_kills_of_everything(make_run):
    run = make_run(ENDLESS)
    run.set_pace(0.01)
    process = run.start(num_workers=2)
    run.await_train_step(40)  # no wait for a person
    assert not run.paths.interventions.exists()
    (run.folder / "person").touch()
    run.wait_for(lambda: len(kept_steps(run)) > 20, 60, "interventions")
    run.wait_for(
        lambda: all(3 / HORIZON <= share <= 4 / HORIZON for share in shares(run)),
        60,
        "the share of a whole episode in the status",
    )
    programs = ["sac_collect.py 0", "sac_replay_buffer.py", "sac_train.py"]
    kill_in_turn(run, [*programs, "sac_collect.py 1"], 30)
    before = kept_steps(run)
    run.kill_everything()
    process = run.start(num_workers=2)
    run.wait_for(lambda: len(kept_steps(run)) > len(before) + 20, 120, "more interventions")
    await_nothing_missing(run)
    stop(run, process)
    kept, taken, numbers = kept_steps(run), taken_over(run), numbers_of_kept(run)
    process = run.start(num_workers=2)  # journals have what was not sent before the stop
    await_nothing_missing(run)
    stop(run, process)

    stored = stored_steps(run)
    assert set(stored.values()) == set(kept.values()) == {1}
    assert set(kept) == taken & set(stored)
    assert len({life for life, _ in kept}) >= 5  # two workers, two killed ones, two of the resume
    assert before.keys() <= kept.keys()
    assert numbers[min(numbers)] == 0
    # The last look is a second old, or the summary of the last iteration.
    assert len(before) <= numbers[max(numbers)] <= len(kept)
    print(f"{len(kept)} interventions of {len(stored)} env steps, 0 lost or twice")


def test_a_share_of_nothing_is_refused(make_run):
    run = make_run("    demonstration_share = 0\n")
    assert run.await_end(run.start(), 120) == EXIT_CONFIG
    assert "keep_interventions is True and demonstration_share is 0" in run.output
