"""Steps environments as a worker does, and reports what is right and wrong with them."""

import collections
import dataclasses
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.assembly import Assembly, assemble
from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import Episode, run_episode
from tfagents_system.commands import environment_probes as probes
from tfagents_system.commands.check_rows import Row, Verdict, explained
from tfagents_system.commands.goals_check import check_goals
from tfagents_system.commands.observations_check import check_observations
from tfagents_system.commands.sharing_check import check_sharing
from tfagents_system.core.meters import PhaseTimer, mean_of
from tfagents_system.core.process import memory
from tfagents_system.core.seeds import derive_seed
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.settings.params import Params
from tfagents_system.environments import own_arrays
from tfagents_system.environments.closing import close_environment
from tfagents_system.environments.construction import (
    make_collect_environment,
    make_eval_environment,
)
from tfagents_system.environments.global_generators import seed_global_generators
from tfagents_system.environments.guest_environment import as_made
from tfagents_system.environments.remarks import remarks_on
from tfagents_system.policies.acting import ActingPolicy, AgentPolicies, RandomPolicy

STEPS = MAKING, RANDOM, GREEDY, PROBING, LEARNING = (
    "making the environments", "random episodes", "greedy episodes", "curriculum, film, seeds",
    "policies, a train step",
)  # fmt: skip
MAX_SECS = 20.0  # seconds of random episodes, and again of greedy ones
MIN_SUSPICIOUS = 3  # terminated episodes of equal length
SMALL_LEAK_MB = 0.1  # per episode; allocators keep less


@dataclasses.dataclass
class Measured:
    """Measurements of a worker for the prediction."""

    step_secs: float = 0.0  # per collected env step: simulator, policy, packing
    cpu_secs: float = 0.0  # CPU time of that
    greedy_step_secs: float = 0.0  # per env step of an evaluation
    episode_length: float = 0.0  # env steps, mean
    leak_mb: float = 0.0  # per episode
    worker_own_mb: float = 0.0  # memory of a program with environments and agent, without libraries

    @property
    def has_leak(self) -> bool:
        """Whether episodes leak more memory than an allocator keeps."""
        return self.leak_mb >= SMALL_LEAK_MB


class EnvironmentCheck:
    """The collect and the eval environment of worker 0.

    check = EnvironmentCheck(params, horizon, curriculum, num_episodes)
    check.run(begin); check.rows; check.measured; check.made   # None if it cannot be trained
    """

    def __init__(self, params: Params, horizon: int, curriculum: Curriculum, num_episodes: int):
        """Makes nothing yet; later runs `num_episodes` with each policy, or as time allows."""
        self.rows: list[Row] = []
        self.measured = Measured()
        self.made: Assembly | None = None
        self.environment: py_environment.PyEnvironment  # the collect environment
        self._params, self._horizon, self._curriculum = params, horizon, curriculum
        self._num_episodes = num_episodes
        self._episodes: list[Episode] = []
        self._memory: list[float] = []  # MB, after each episode
        self._numbers = InfoNumbers(params.log_info)
        self._timer = PhaseTimer("starting")

    def run(self, begin: Callable[[str], None]) -> None:
        """Fills `rows`; ends early if nothing more can be checked.

        Calls `begin` at the start of each of STEPS.
        """
        begin(MAKING)
        if not self._make():
            return
        self._set_up_acting()
        if self.made is None:
            return
        if self._run_episodes(begin):
            self.rows.append(probes.check_rewards(self._examiner))
            self._judge_ends()
            self._judge_success()
            self.rows += probes.check_info(self.environment, self._numbers, self._episodes)
            self._judge_speed()
            self._judge_memory()
        else:
            self.made = None
        begin(PROBING)
        self.rows += [
            probes.check_curriculum(self.environment, self._curriculum, self._examiner),
            check_sharing(self.environment),
            *check_goals(self.environment, self._params),
            probes.check_rendering(self._eval_environment),
            probes.check_seeding(self._params),
        ]
        if self.made is not None:
            begin(LEARNING)
            self._try_to_learn(self.made)

    def _try_to_learn(self, made: Assembly) -> None:
        try:
            from tfagents_system.commands.learning_check import check_learning
        except ImportError as error:  # Reverb is only for Linux
            self._add("learning", "note", f"not tried: {error}", "Training needs that package.")
            return
        policy = self._collect_policy
        self.rows.append(check_learning(self._params, made, self.environment, policy))

    def close(self) -> None:
        """Closes the environments that were made."""
        for name in ("_eval_environment", "environment"):
            if hasattr(self, name):
                close_environment(getattr(self, name))

    def _add(self, what: str, verdict: Verdict, value: str, advice: str = "") -> None:
        self.rows.append(Row(what, verdict, value, advice))

    def _make(self) -> bool:
        seed_global_generators(functools.partial(derive_seed, probes.SEED))
        try:
            self.environment = make_collect_environment(self._params, probes.seed_of(0))
            self._eval_environment = make_eval_environment(
                self._params, probes.seed_of(1), 0, self.environment
            )
        except Exception as error:
            self._add("construction", "WRONG", explained(error), "No worker could start.")
            return False
        name = type(as_made(self.environment)).__name__
        self._add("construction", "ok", f"environments of collection and evaluation ({name})")
        takes_vectors = self._params.preprocessing_combiner is None
        for remark in remarks_on(self.environment, takes_vectors):
            self._add(remark.what, "note", remark.text, remark.advice)
        return True

    def _set_up_acting(self) -> None:
        shown = probes.shown_specs(
            self.environment.observation_spec(), self.environment.action_spec()
        )
        try:
            made = assemble(self._params, self.environment)
            rng = np.random.default_rng(probes.SEED)
            policies = AgentPolicies(made.agent, rng, self._params.exploration_noise_beta)
            self._examiner = probes.StepExaminer(
                made.codec, self.environment.observation_spec(), self._params
            )
        except Exception as error:
            self._add("specs", "WRONG", f"{shown}: {explained(error)}", "No agent can be made.")
            return
        if names := self._params.critic_observations:
            of_actor = ", ".join(made.agent.policy.time_step_spec.observation)
            shown += f"; the actor sees {of_actor}, only critics see {', '.join(names)}"
        self._add("specs", "ok", shown)
        self.rows += check_observations(self.environment.observation_spec(), self._params)
        self._greedy: ActingPolicy = policies.greedy
        self._collect_policy: ActingPolicy = policies.collect
        self.made = made

    def _run_episodes(self, begin: Callable[[str], None]) -> bool:
        random = RandomPolicy(self.environment.action_spec(), probes.SEED)
        kinds = {
            RANDOM: (random, self.environment),
            GREEDY: (self._greedy, self._eval_environment),
        }
        for what, (policy, environment) in kinds.items():
            begin(what)
            try:
                time_step = own_arrays.reset(environment)
                own_arrays.check_finite(time_step.observation, "observation", 0)
                policy.action(time_step, policy.initial_state())  # some policies compile here
                self._run_kind(what, policy, environment)
            except Exception as error:
                advice = "Workers would fail, or reject the step and end the episode."
                self._add(what, "WRONG", explained(error), advice)
                return False
        self.rows += self._examiner.entities.rows()
        if beyond := self._examiner.out_of_bounds:
            shown = ", ".join(f"{name} ({n} steps)" for name, n in beyond.items())
            self._add("bounds", "note", f"outside its spec: {shown}", "Give the spec true bounds.")
        else:
            self._add("bounds", "ok", "every observation is within its spec")
        return True

    def _run_kind(self, what: str, policy: ActingPolicy, environment: Any) -> None:
        deadline = time.monotonic() + MAX_SECS
        before, cpu_before = self._timer.totals(), time.process_time()
        returns, num_steps = [], 0

        def observe(
            time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
        ) -> bool:
            self._examiner.pack(action, next_time_step)
            self._timer.enter("looking")  # a worker does not do this
            self._examiner.look(next_time_step)
            return time.monotonic() < deadline

        for _ in range(self._num_episodes):
            episode = run_episode(
                environment, policy, self._horizon, observe, self._timer, self._numbers
            )
            self._memory.append(memory.resident_mb())
            num_steps += episode.length
            if not episode.is_complete:
                break
            self._episodes.append(episode)
            returns.append(episode.episode_return)
        cpu_secs = (time.process_time() - cpu_before) / num_steps
        after = self._timer.totals()
        secs = {
            phase: (after.get(phase, 0.0) - before.get(phase, 0.0)) / num_steps
            for phase in ("env step", "acting", "writing", "looking")
        }
        cpu_secs -= secs.pop("looking")
        measured = self.measured
        if policy is self._greedy:  # as fast as the collect policy
            measured.step_secs = sum(secs.values())
            measured.cpu_secs = min(max(cpu_secs, 0.0), measured.step_secs)
            measured.greedy_step_secs = secs["env step"] + secs["acting"]
            self._env_step_secs = secs["env step"]
        mean = f"mean return {mean_of(returns):.5g}" if returns else "none complete"
        cut = "" if len(returns) == self._num_episodes else f", cut after {MAX_SECS:g} s"
        self._add(what, "ok", f"{len(returns)} episodes, {num_steps} env steps, {mean}{cut}")

    def _judge_ends(self) -> None:
        ends = collections.Counter((e.length, e.is_terminal) for e in self._episodes)
        if not ends:
            advice = "Workers cut episodes after the horizon, with discount 1, in any case."
            self._add("time limit", "note", "no episode ended while this looked", advice)
            self.measured.episode_length = self._horizon
            return
        lengths = sorted({length for length, _ in ends})
        self.measured.episode_length = statistics.fmean(e.length for e in self._episodes)
        num_terminal = sum(n for (_, is_terminal), n in ends.items() if is_terminal)
        limits = [length for length, is_terminal in ends if not is_terminal]
        shown = f"{lengths[0]}" + (f" to {lengths[-1]}" if len(lengths) > 1 else "")
        value = (f"{len(self._episodes)} episodes of {shown} steps, {num_terminal} with discount 0 "
                 f"at the end; the horizon is {self._horizon}")  # fmt: skip
        if not self._examiner.num_ends:
            value += ", which ended them all"
        if lengths == [1] and self._horizon > 1:
            advice = ("An episode is over after its first step: there is no future to learn of. If "
                      "the task is longer, look at what ends it.")  # fmt: skip
            self._add("time limit", "note", value, advice)
        elif num_terminal >= MIN_SUSPICIOUS and not limits and len(lengths) == 1 < lengths[0]:
            advice = (
                "All ended at one length with discount 0. If that is a time limit, its last step "
                "must have discount 1, or values are learned that are too low: "
                "docs/environments.md#time-limits. If the task ends there, all is well."
            )
            self._add("time limit", "note", value, advice)
        elif any(length < self._horizon for length in limits):
            advice = (f"Set horizon to {max(limits)}: the replay buffer and iterations are counted "
                      "in episodes of horizon steps.")  # fmt: skip
            self._add("time limit", "note", value, advice)
        else:
            self._add("time limit", "ok", value)

    def _judge_success(self) -> None:
        faults = [e.success_fault for e in self._episodes if e.success_fault]
        if faults:
            self._add("success", "note", faults[0], "Report True or False in the last step's info.")

    def _judge_speed(self) -> None:
        measured = self.measured
        overhead = 1e3 * (measured.step_secs - self._env_step_secs)
        value = (
            f"{1 / measured.step_secs:.0f} env steps/s: simulator "
            f"{1e3 * self._env_step_secs:.3g} ms, policy and packing {overhead:.3g} ms a step"
        )
        self._add("speed", "ok", value)

    def _judge_memory(self) -> None:
        measured = self.measured
        measured.worker_own_mb = memory.own_mb()
        growth = [b - a for a, b in zip(self._memory[1:], self._memory[2:], strict=False)]
        measured.leak_mb = statistics.median(growth) if growth else 0.0
        value = f"{measured.leak_mb:.3f} MB more per episode (median of {len(growth)})"
        if not measured.has_leak:
            self._add("memory leak", "ok", value)
        else:
            advice = ("Free what an episode has made in reset(). A worker that runs out of memory "
                      "is killed and started again.")  # fmt: skip
            self._add("memory leak", "note", value, advice)
