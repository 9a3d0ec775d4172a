"""A worker beside a learner and a replay server that do what the test says."""

import collections

from replay_fakes import EpisodeStepEnv, SleepingWatchdog, TinyParams

from tfagents_system.collection.experience import Experience
from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.newest_policies import NewestPolicies
from tfagents_system.collection.side_by_side_worker import SideBySideWorker
from tfagents_system.collection.step_observers import StepObservers
from tfagents_system.collection.worker_environments import Environments
from tfagents_system.collection.worker_records import WorkerRecords
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.environments.replaceable import ReplaceableEnvironment
from tfagents_system.films.camera import Camera
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.versions import PolicyVersion
from tfagents_system.workers import Worker

NUM_ITER, STEPS_PER_ITER = 20, 10


class TapePolicies:
    """Random actions by default; records the values it was updated with."""

    def __init__(self, collect=None, greedy=None):
        self.collect = collect or RandomPolicy(EpisodeStepEnv().action_spec(), 0)
        self.greedy = greedy or RandomPolicy(EpisodeStepEnv().action_spec(), 1)
        self.updates = []

    def update(self, values):
        self.updates.append(values)


class FakeReader:
    """Publishes what the test assigns; without `tickets` nothing is evaluated."""

    def __init__(self, tickets=None):
        self.tickets = tickets or FakeTickets(NUM_ITER + 1, 0)
        self.latest = None

    def refresh(self, timeout_secs):
        pass

    def publish_iteration(self, iteration):
        iteration = min(iteration, NUM_ITER)
        values = [f"of {iteration}"]
        num_tickets = self.tickets.hand_out(iteration, values)
        self.latest = PolicyVersion(iteration * STEPS_PER_ITER, values, num_tickets)


class FakeTickets:
    """The learner hands out `num_episodes` after every `period` iterations and at the end.

    The first one of each evaluation is to be filmed.
    """

    def __init__(self, period, num_episodes, num_iter=NUM_ITER):
        self._period, self._num_episodes, self._num_iter = period, num_episodes, num_iter
        self._handed_out = self.num_tickets = self.num_asked = 0
        self.waiting = []
        self.is_away = False

    def hand_out(self, iteration, values):
        due = iteration if iteration == self._num_iter else iteration // self._period * self._period
        if due > self._handed_out:
            self._handed_out = due
            self.num_tickets += self._num_episodes
            ticket = PolicyVersion(iteration * STEPS_PER_ITER, values)
            self.waiting.append(ticket._replace(is_filmed=True))
            self.waiting += [ticket] * (self._num_episodes - 1)
        return self.num_tickets

    def take(self):
        self.num_asked += 1
        if self.is_away:
            raise TimeoutError
        return self.waiting.pop(0) if self.waiting else None

    def give_back(self, ticket):
        self.waiting.append(ticket)


class FakeAdder:
    """A burst is due after `burst_length` steps; `on_confirm` returns whether it is confirmed."""

    def __init__(self, on_confirm=lambda: True, burst_length=3):
        self._on_confirm, self._burst_length = on_confirm, burst_length
        self.num_unsent = 0
        self.is_pending = False
        self.num_added = 0
        self.num_recovered = self.num_unprotected = self.num_left_out = self.num_damaged = 0
        self.rejected = collections.Counter()
        self.slots, self.ended = [], []  # of steps, and of ends of episodes
        self.num_interventions = collections.Counter()  # by slot

    def add(self, time_step, action, next_time_step, state, slot=0, is_intervention=False):
        self.num_unsent += 1
        self.num_added += 1
        self.num_interventions[slot] += is_intervention
        self.slots.append(slot)
        return True

    def end_episode(self, slot=0):
        self.ended.append(slot)

    @property
    def is_burst_due(self):
        return self.num_unsent >= self._burst_length

    def send(self):
        self.is_pending = self.num_unsent > 0
        self.num_unsent = 0

    def send_lost(self, checkpoints):
        for burst in checkpoints:
            self.is_pending = True
            self.num_recovered += burst
            yield

    def is_confirmed(self, timeout_secs):
        self.is_pending = self.is_pending and not self._on_confirm()
        return not self.is_pending


def make_run(folder, curriculum=None, **hyperparameters):
    params = TinyParams({"horizon": 3})
    values = {"num_iter": NUM_ITER, "num_steps_per_iter": STEPS_PER_ITER} | hyperparameters
    for name, value in values.items():
        setattr(params, name, value)
    return Run(ExperimentPaths(folder), params, Curriculum.from_config(curriculum or {}, "test"), 0)


def replaceable(environment):
    """Goes on with the same environment after a failure."""
    return ReplaceableEnvironment(environment, lambda _: environment, SleepingWatchdog())


def make_worker(run, adder, reader, worker_id=0, stop=None, environment=None,
                eval_environment=None, new_checkpoints=lambda: None, policies=None,
                make=Worker, relabelling=None, others=()):  # fmt: skip
    """With `others`, environments beside `environment`, it has as many slots more."""
    hooks = (run.params.train_observers_ctor, run.params.eval_observers_ctor)
    environments = Environments(
        replaceable(environment or EpisodeStepEnv()),
        replaceable(eval_environment or EpisodeStepEnv()),
        *(StepObservers(hook, worker_id, run.horizon) for hook in hooks),
        Camera(run.horizon, run.paths.training_videos, print),
        SleepingWatchdog(),
        InfoNumbers(run.params.log_info),
        run.curriculum,
        others=[replaceable(each) for each in others],
        other_observers=[StepObservers(hooks[0], worker_id, run.horizon) for _ in others],
    )
    return (SideBySideWorker if others else make)(
        run,
        environments,
        NewestPolicies(policies or TapePolicies(), reader),
        Experience(adder, new_checkpoints, [relabelling] if relabelling else []),
        WorkerRecords(
            run.paths,
            worker_id,
            run.horizon,
            run.params.log_period_itrs,
            callbacks=run.params.callbacks,
        ),
        should_stop=lambda: stop,
        tickets=getattr(reader, "tickets", None),
        keep_best=lambda version: None,
    )


def no_fill():
    return 0


def rows_of(run, kind, worker_id=0):
    lines = (run.paths.episodes / f"{kind}_{worker_id}.csv").read_text().splitlines()
    names = lines[0].split(",")
    return [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]


def advance(reader, first=0, by=1):
    """Returns an `on_confirm` that publishes the next iteration with each burst."""
    reader.publish_iteration(first)
    iterations = iter(range(first + by, 10 * NUM_ITER, by))

    def on_confirm():
        reader.publish_iteration(next(iterations))
        return True

    return on_confirm


def iterations_evaluated(run, worker_id=0):
    return [int(row["iteration"]) for row in rows_of(run, "eval", worker_id)]


class FailingEnv(EpisodeStepEnv):
    """Raises in each env step whose number, from 1, is in `failures`."""

    def __init__(self, failures):
        super().__init__()
        self._failures = failures
        self.num_attempts = 0

    def _step(self, action):
        self.num_attempts += 1
        if self.num_attempts in self._failures:
            raise RuntimeError("the motor is gone")
        return super()._step(action)
