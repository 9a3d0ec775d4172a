"""The probes of `sac check`: each tries one property of an environment."""

import collections
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tree
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection import success
from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.interventions import Interventions, TakenActionError
from tfagents_system.collection.rollouts import Episode
from tfagents_system.commands.checks.observations import EntityCounter
from tfagents_system.commands.checks.rows import Row, explained
from tfagents_system.core.categories import is_category
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.settings.params import Params
from tfagents_system.core.settings.samplers import Constant, Sampler
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.data.codec import Codec
from tfagents_system.data.frames import newest_frames
from tfagents_system.data.transition import MID
from tfagents_system.environments import own_arrays, rendering
from tfagents_system.environments.closing import close_environment
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.environments.declared_kinds import array_name
from tfagents_system.environments.global_generators import seed_global_generators
from tfagents_system.environments.info_keys import ACTION
from tfagents_system.environments.remarks import shape_of
from tfagents_system.policies.acting import RandomPolicy

SEED = 1
NUM_SEEDED_STEPS = 30
NUM_FRAMES = 3
NUM_DRAWS = 5  # of each sampler of the curriculum
RECORDED_ANYWAY = (*success.KEYS, "TimeLimit.truncated")  # keys of the info


class StepExaminer:
    """Packs env steps as a worker does, and checks that they fit the spec."""

    def __init__(self, codec: Codec, observation_spec: Any, settings: TrainingSettings):
        """Takes a worker's codec and the observation spec of its environment."""
        self.out_of_bounds: collections.Counter[str] = collections.Counter()  # steps, by leaf
        self.num_steps = self.num_ends = 0  # looked at; of these, last steps of episodes
        self.num_terminations = 0  # of these, those with discount 0
        self.rewards: set[float] = set()  # the first two that differ
        self.entities = EntityCounter(observation_spec)
        self._codec, self._spec = codec, observation_spec
        self._stacks = settings.frame_stack > 1
        self._blank = self._codec.zeros()

    def pack(self, action: Any, next_time_step: ts.TimeStep) -> None:
        """Raises ValueError for a step that a worker would reject."""
        observation = next_time_step.observation
        if self._stacks:
            observation = newest_frames(observation, self._codec.spec.observation)
        row = self._blank._replace(
            step_type=np.float32(MID),
            observation=observation,
            action=action,
            reward=next_time_step.reward,
            discount=next_time_step.discount,
        )
        self._codec.pack(row)

    def look(self, next_time_step: ts.TimeStep) -> None:
        """Counts the notable facts of a step; raises ValueError for a wrong discount."""
        self.num_steps += 1
        self.num_ends += bool(next_time_step.is_last())
        self.num_terminations += bool(next_time_step.is_last() and not next_time_step.discount)
        if len(self.rewards) < 2:
            self.rewards.add(float(next_time_step.reward))
        if not 0 <= float(next_time_step.discount) <= 1:
            raise ValueError(f"discount is {next_time_step.discount}; expected 0 to 1")
        observation = next_time_step.observation
        self.entities.count(observation)
        if array_spec.check_arrays_nest(observation, self._spec):
            return
        leaves = tree.flatten(observation)
        specs = tree.flatten_with_path(self._spec)
        for leaf, (path, spec) in zip(leaves, specs, strict=True):
            if not spec.check_array(np.asarray(leaf, spec.dtype)):
                self.out_of_bounds[array_name(path)] += 1


def shown_specs(observation_spec: Any, action_spec: Any) -> str:
    """Returns dtype and shape of all arrays, and the number of integers of each choice."""

    def shown(spec: Any, is_choice: bool) -> str:
        if not is_choice:
            return shape_of(spec)
        sizes = np.ravel(np.broadcast_to(spec.maximum - spec.minimum + 1, spec.shape))
        return f"{shape_of(spec)}, one of {' x '.join(map(str, sizes))}"

    observations = [shown(spec, is_category(spec)) for spec in tree.flatten(observation_spec)]
    actions = [
        shown(spec, np.issubdtype(spec.dtype, np.integer)) for spec in tree.flatten(action_spec)
    ]
    return f"observation {', '.join(observations)}; action {', '.join(actions)}"


def check_rewards(examiner: StepExaminer) -> Row:
    """Judges the rewards of all steps that the examiner has looked at."""
    if len(examiner.rewards) > 1:
        return Row("reward", "ok", "differs from step to step")
    (reward,) = examiner.rewards
    value = f"the reward was the same in all {examiner.num_steps:,} steps, {reward:g}"
    if reward and examiner.num_terminations:
        return Row("reward", "ok", f"{value}: returns differ by how long an episode lasts")
    advice = ("Nothing can be learned until exploration meets another reward. If random actions "
              "should have, look at the reward's computation.")  # fmt: skip
    return Row("reward", "note", value, advice)


def check_info(
    environment: py_environment.PyEnvironment, numbers: InfoNumbers, episodes: Sequence[Episode]
) -> list[Row]:
    """Returns rows on what `log_info` records of the info, or could, and on reported actions."""
    return _check_taken_action(environment) + _check_numbers(environment, numbers, episodes)


def _check_taken_action(environment: py_environment.PyEnvironment) -> list[Row]:
    info = environment.get_info()
    try:
        Interventions(environment.action_spec()).taken(None, info)
    except TakenActionError as error:
        return [Row("interventions", "WRONG", str(error), "Workers would end the episode.")]
    if not isinstance(info, Mapping) or info.get(ACTION) is None:
        return []
    value = "info['action'] is stored in place of the policy's action"
    return [Row("interventions", "ok", value)]


def _check_numbers(
    environment: py_environment.PyEnvironment, numbers: InfoNumbers, episodes: Sequence[Episode]
) -> list[Row]:
    if not numbers:
        of_last_step = InfoNumbers(["*"])
        of_last_step.add(environment.get_info())
        keys = [key for key in of_last_step.keys if key not in RECORDED_ANYWAY]
        value = f"has numbers, which log_info can record: {', '.join(keys)}"
        return [Row("info", "ok", value)] if keys else []
    faults = [fault.text for episode in episodes for fault in episode.info_faults]
    names = dict.fromkeys(name for episode in episodes for name in episode.numbers)
    recorded = [Row("log_info", "ok", f"records {', '.join(names)}")] if names else []
    return recorded + [Row("log_info", "note", fault) for fault in faults]


def check_curriculum(
    environment: py_environment.PyEnvironment, curriculum: Curriculum, examiner: StepExaminer
) -> Row:
    """Sets all values of the curriculum, and some of each sampler; takes one step with each."""
    samplers = _samplers_of(curriculum)
    if not samplers:
        return Row("set_state", "ok", "not needed: the config has no curriculum")
    policy = RandomPolicy(environment.action_spec(), SEED)
    generator = np.random.default_rng(SEED)
    num_values: collections.Counter[str] = collections.Counter()
    for name, sampler in samplers:
        shown = name
        try:
            for _ in range(1 if isinstance(sampler, Constant) else NUM_DRAWS):
                value = sampler.draw(generator)
                shown = f"{name} = {value}"
                environment.set_state({name: value})
                action, _ = policy.action(own_arrays.reset(environment), ())
                examiner.pack(action, own_arrays.step(environment, action))
                num_values[name] += 1
        except Exception as error:
            shown = f"{shown}: {explained(error)}"
            return Row("set_state", "WRONG", shown, "The curriculum would end the workers.")
    names = ", ".join(f"{name} ({count} values)" for name, count in num_values.items())
    return Row("set_state", "ok", f"accepts {names}")


def _samplers_of(curriculum: Curriculum) -> list[tuple[str, Sampler]]:
    """Returns all values that each parameter may have."""
    ramps = (
        (name, Constant(value))
        for name, ramp in curriculum.ramps.items()
        for value in dict.fromkeys(ramp.values)
    )
    lessons = ((n, lesson.value) for n, course in curriculum.courses.items() for lesson in course)
    return [*ramps, *lessons, *curriculum.samplers.items()]


def check_rendering(environment: py_environment.PyEnvironment) -> Row:
    """Renders the first steps of an episode as a film does."""
    try:
        time_step = own_arrays.reset(environment)
        started = time.perf_counter()
        frames = [rendering.draw(environment)]
        secs = time.perf_counter() - started
        policy = RandomPolicy(environment.action_spec(), SEED)
        while len(frames) < NUM_FRAMES and not time_step.is_last():
            time_step = own_arrays.step(environment, policy.action(time_step, ())[0])
            frames.append(rendering.draw(environment))
    except Exception as error:
        advice = "Training works; films of policies do not."
        return Row("rendering", "note", explained(error), advice)
    sizes = list(dict.fromkeys(f"{frame.shape[1]} x {frame.shape[0]}" for frame in frames))
    if len(sizes) > 1:
        advice = "A film has one size: it ends where that changes, and there is none after it."
        return Row("rendering", "note", f"frames of {' and '.join(sizes)}", advice)
    if all(int(frame.max()) - int(frame.min()) <= 1 for frame in frames):
        color = frames[0][0, 0].tolist()
        advice = "Training works; films show nothing. Colors are 0 to 255, of floats 0 to 1."
        return Row("rendering", "note", f"{sizes[0]}, all of one color, {color}", advice)
    return Row("rendering", "ok", f"{sizes[0]}, the first frame in {secs:.2g} s")


def check_seeding(params: Params) -> Row:
    """Makes three environments, two with the same seed, and takes the same actions in each."""
    try:
        first, second, other = (_trajectory(params, seed) for seed in (SEED, SEED, SEED + 1))
    except Exception as error:
        advice = "A worker makes a new environment after each failure; that would fail, too."
        return Row("seeding", "WRONG", f"another environment: {explained(error)}", advice)
    if not are_equal(first, second):
        advice = ("Draw everything from a generator made of env_ctor's seed; otherwise "
                  "SAC_DETERMINISTIC repeats nothing.")  # fmt: skip
        return Row("seeding", "note", "one seed gave two different episodes", advice)
    if are_equal(first, other):
        advice = "If resets are meant to be random, use env_ctor's seed."
        return Row("seeding", "note", "two seeds gave the same episode", advice)
    return Row("seeding", "ok", "one seed repeats an episode, another one does not")


def seed_of(index: int, seed: int = SEED) -> int:
    """Returns the seed of one of the check's environments."""
    return derive_seed(seed, SeedPurpose.COLLECT_ENV, index)


def _trajectory(params: Params, seed: int) -> list[Any]:
    """Returns observations and rewards of the first steps; the actions are always the same."""
    seed_global_generators(functools.partial(derive_seed, seed))
    environment = make_collect_environment(params, seed_of(0, seed))
    policy = RandomPolicy(environment.action_spec(), SEED)
    time_step = own_arrays.reset(environment)
    seen: list[Any] = [time_step.observation]
    while not time_step.is_last() and len(seen) <= NUM_SEEDED_STEPS:
        action, _ = policy.action(time_step, ())
        time_step = own_arrays.step(environment, action)
        seen.append((time_step.observation, float(time_step.reward)))
    close_environment(environment)
    return seen


def are_equal(first: Any, second: Any) -> bool:
    """Returns whether two nests have equal arrays; NaN equals NaN."""
    a, b = tree.flatten(first), tree.flatten(second)
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)
