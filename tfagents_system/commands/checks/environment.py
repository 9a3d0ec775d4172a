"""Steps environments as a worker does, and reports what is right and what is wrong with them."""

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.assembly import Assembly, assemble
from tfagents_system.collection import environment_rules as rules
from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import Episode, run_episode
from tfagents_system.collection.slot_environments import num_slots_of
from tfagents_system.commands.checks import probes
from tfagents_system.commands.checks.ends import check_ends, check_success
from tfagents_system.commands.checks.goals import check_goals
from tfagents_system.commands.checks.measurements import Measured, acting_secs
from tfagents_system.commands.checks.observations import check_observations
from tfagents_system.commands.checks.rows import Row, Verdict, explained
from tfagents_system.commands.checks.sharing import check_sharing
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import PhaseTimer, mean_of
from tfagents_system.core.process import memory
from tfagents_system.core.seeds import SeedPurpose, derive_seed
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
from tfagents_system.policies.acting import ActingPolicy, AgentPolicies, RandomPolicy, SlotPolicy

STEPS = MAKING, RANDOM, GREEDY, PROBING, LEARNING = (
    "making the environments", "random episodes", "greedy episodes", "curriculum, film, seeds",
    "policies, a train step",
)  # fmt: skip
MAX_SECS = 20.0  # seconds of random episodes, and again of greedy ones


class EnvironmentCheck:
    """Checks the environments of worker 0; if it has several for collection, two of them.

    check = EnvironmentCheck(params, horizon, curriculum, num_episodes)
    check.run(begin); check.rows; check.measured; check.made   # None if it cannot be trained
    """

    def __init__(
        self,
        params: Params,
        horizon: int,
        curriculum: Curriculum,
        num_episodes: int,
        is_deterministic: bool = False,
    ):
        """Makes nothing yet; later runs `num_episodes` with each policy, or as time allows."""
        self.rows: list[Row] = []
        self.measured = Measured(num_simulators=params.envs_per_worker)
        self.made: Assembly | None = None
        self.environment: py_environment.PyEnvironment  # the collect environment
        self._params, self._horizon, self._curriculum = params, horizon, curriculum
        self._num_episodes, self._is_deterministic = num_episodes, is_deterministic
        self._episodes: list[Episode] = []
        self._memory: list[float] = []  # MB, after each episode
        self._num_evaluated = 1  # episodes at once
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
            self.rows += self._judge_ends()
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
            from tfagents_system.commands.checks.learning import check_learning
        except ImportError as error:  # Reverb is only for Linux
            self._add("learning", "note", f"not tried: {error}", "Training needs that package.")
            return
        arguments = self._params, made, self.environment, self._collect_policy
        self.rows.append(check_learning(*arguments, self._is_deterministic))

    def close(self) -> None:
        """Closes the environments that were made."""
        for name in ("_eval_environment", "_second_environment", "environment"):
            if hasattr(self, name):
                close_environment(getattr(self, name))

    def _add(self, what: str, verdict: Verdict, value: str, advice: str = "") -> None:
        self.rows.append(Row(what, verdict, value, advice))

    def _make(self) -> bool:
        seed_global_generators(functools.partial(derive_seed, probes.SEED))
        try:
            self.environment = make_collect_environment(self._params, probes.seed_of(0))
            if self.measured.num_simulators > 1:
                before = memory.own_mb()
                seed = derive_seed(probes.seed_of(0), SeedPurpose.SLOT, index=1)
                self._second_environment = make_collect_environment(self._params, seed)
                self._simulator_mb = max(memory.own_mb() - before, 0.0)
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
        return self._check_slots()

    def _check_slots(self) -> bool:
        """Checks, as a worker does, that its environments can be used together."""
        every, measured = [self.environment], self.measured
        if hasattr(self, "_second_environment"):
            every.append(self._second_environment)
        try:
            rules.check_apart(self._params, every, self._eval_environment)
            numbers = [num_slots_of(environment) for environment in every]
            evaluated = num_slots_of(self._eval_environment)
            self._num_evaluated = min(evaluated, max(1, self._params.n_eval_episodes))
            measured.num_slots = rules.check_slots(
                self._params, every, self._eval_environment, numbers
            )
            if self._is_deterministic:
                rules.check_lock_step(measured.num_at_once)
        except ConfigError as error:
            self._add("worker", "WRONG", str(error), "Every worker would end with this.")
        except Exception as error:
            self._add("worker", "WRONG", explained(error), "No worker could start.")
            return False
        else:
            if (number := measured.num_at_once) > 1:
                self._add("worker", "ok", f"{number} environments or agents act side by side")
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
        self._greedy: SlotPolicy = policies.greedy
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
        if policy is self._greedy:  # as fast as the collect policy
            self._measure(secs, cpu_secs)
        else:
            self._simulator_secs = secs["env step"]
        mean = f"mean return {mean_of(returns):.5g}" if returns else "none complete"
        cut = "" if len(returns) == self._num_episodes else f", cut after {MAX_SECS:g} s"
        self._add(what, "ok", f"{len(returns)} episodes, {num_steps} env steps, {mean}{cut}")

    def _measure(self, secs: Mapping[str, float], cpu_secs: float) -> None:
        measured = self.measured
        simulator, acting = secs["env step"], secs["acting"]
        if measured.num_slots > 1:  # the eval environment may have another number
            simulator = self._simulator_secs
        if measured.num_at_once > 1:
            time_step = own_arrays.reset(self._eval_environment)
            acting = acting_secs(self._greedy, time_step, measured.num_at_once)
        measured.take_speed(secs, cpu_secs, self._num_evaluated, simulator, acting)

    def _judge_ends(self) -> list[Row]:
        lengths = [episode.length for episode in self._episodes]
        self.measured.episode_length = statistics.fmean(lengths) if lengths else self._horizon
        num_ends, is_time_aware = self._examiner.num_ends, self._params.time_aware
        row = check_ends(self._episodes, self._horizon, num_ends, is_time_aware)
        return [row, *check_success(self._episodes)]

    def _judge_speed(self) -> None:
        measured = self.measured
        overhead = 1e3 * (measured.step_secs - measured.simulator_secs)
        value = (
            f"{1 / measured.step_secs:.0f} env steps/s: simulator "
            f"{1e3 * measured.simulator_secs:.3g} ms, policy and packing {overhead:.3g} ms a step"
        )
        self._add("speed", "ok", value)

    def _judge_memory(self) -> None:
        measured = self.measured
        measured.worker_own_mb = memory.own_mb()
        if (num_others := measured.num_simulators - 2) > 0:  # those that the check has not made
            measured.worker_own_mb += num_others * self._simulator_mb
        growth = [b - a for a, b in zip(self._memory[1:], self._memory[2:], strict=False)]
        measured.leak_mb = statistics.median(growth) if growth else 0.0
        value = f"{measured.leak_mb:.3f} MB more per episode (median of {len(growth)})"
        if not measured.has_leak:
            self._add("memory leak", "ok", value)
        else:
            advice = ("Free what an episode has made in reset(). A worker that runs out of memory "
                      "is killed and started again.")  # fmt: skip
            self._add("memory leak", "note", value, advice)
