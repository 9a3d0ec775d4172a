"""Templates for the params, config and variables files of a new project."""

import json
import re
from collections.abc import Mapping

from tfagents_system.commands.projects.environment_ids import EnvironmentId
from tfagents_system.commands.projects.environment_options import EnvironmentOptions, literal
from tfagents_system.commands.projects.recipes import recipe_for
from tfagents_system.core.settings.hyperparameters import MOST_COUNT

STEPS_PER_ITERATION = 1000
ENV_STEPS = 300_000
FIRST_ENV_STEPS = 5_000
BUFFER_ENV_STEPS = 300_000
BUFFER_IMAGES = 50_000  # 1 GB of 84 x 84 x 3
EVAL_EVERY_ENV_STEPS = 10_000
OWN_HORIZON = 100
BASE_IMPORT = "from tfagents_system.train_params_base import TrainParamsBase"
_ORIGIN = "# Environment: "  # marks projects of `sac train --env`

# Package, module, and the call.
_LOADERS = {
    "gymnasium": ("environments", "gymnasium_adapter", '"{name}", seed=seed, gym_kwargs=kwargs'),
    "gym": ("environments", "gym_adapter", '"{name}", seed=seed, gym_kwargs=kwargs'),
    "pybullet": ("environments", "pybullet_adapter", '"{name}", seed=seed, gym_kwargs=kwargs'),
    "dm_control": ("environments", "dm_control_adapter", '"{domain}", "{task}", seed=seed'),
    "partial": ("tasks", "partial", '"{name}", seed=seed'),
    "unity": (
        "environments",
        "unity_adapter",
        '"{name}", seed=seed, specs=self.env_config["specs"], **kwargs',
    ),
}
# The adapter for an environment with wrappers of its library. The wrappers are between the two,
# because the adapter may not support the observations without them.
_ADAPTERS = {
    "gymnasium": "GymnasiumEnvironment",
    "gym": "GymEnvironment",
    "pybullet": "PybulletEnvironment",
}

_PARAMS = '''"""{title}

sac train {slug}_variables.sh trains it; docs/settings.md lists everything that can be set here.
"""

{imports}


{simulator}class TrainParams(TrainParamsBase):
    """{title}"""

    # An iteration is {per_iteration:,} env steps and {train_steps} train steps.
    num_iter = {num_iter}
    num_steps_per_iter = {train_steps_per_iteration}
    n_train_episodes_per_iter = {episodes_per_iteration}
    # In episodes: the replay buffer, and the random ones collected before training begins.
    n_episodes_in_buffer = {episodes_in_buffer}
    n_buffer_init_episodes = {first_episodes}
    # In iterations: between evaluations of n_eval_episodes, checkpoints, points of TensorBoard.
    eval_period_itrs = {eval_period}
    n_eval_episodes = 5
    checkpoint_period_itrs = {eval_period}
    log_period_itrs = 1
    # The networks' hidden layers: as small as the task allows.
    actor_fc_layer_params = ({units}, {units})
    critic_joint_fc_layer_params = ({units}, {units})
{learning_settings}{image_settings}
    def env_ctor(self, *args, seed=None, **kwargs):
        """Returns the environment; each worker makes its own."""
        {make}
'''

_IMAGE_SETTINGS = """
    frame_stack = 3  # newest frames, so that the networks see motion
    image_augmentation = 4  # pixels by which images are shifted at random, against overfitting
"""

_SIMULATOR = '''class Simulator(gymnasium.Env):
    """A mass on a rail that must stop in the middle. Replace it with your own simulator."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, shape=(2,), dtype=np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    render_mode = "rgb_array"

    def __init__(self, mass):
        self.mass = mass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # makes self.np_random
        self.position, self.velocity = self.np_random.uniform(-1.0, 1.0), 0.0
        return self.observe(), {}

    def step(self, action):
        self.velocity += 0.1 * float(action[0]) / self.mass
        self.position += 0.1 * self.velocity
        reward = -(self.position**2) - 0.1 * self.velocity**2
        # True ends the episode because nothing more can be earned. A time limit is no such end:
        # the config's horizon cuts the episode, and learning knows that it could have gone on.
        has_fallen_off = abs(self.position) > 3.0
        return self.observe(), reward - 100.0 * has_fallen_off, has_fallen_off, False, {}

    def observe(self):
        return np.array([self.position, self.velocity], np.float32)

    def render(self):
        picture = np.full((120, 360, 3), 255, np.uint8)
        picture[80:84] = 0  # the rail
        picture[60:80, 178:182] = (0, 160, 0)  # its middle
        left = int(np.clip(180 + 50 * self.position - 15, 0, 330))
        picture[55:80, left : left + 30] = (200, 60, 0)  # the mass
        return picture


'''


def params_text(
    title: str,
    slug: str,
    environment: EnvironmentId | None,
    options: EnvironmentOptions,
    algorithm: str | None = None,
) -> str:
    """Returns the params file for an environment, or for a simulator to replace if None.

    `algorithm` is one of agents/table.py; None is the default one.
    """
    horizon = options.horizon or (environment.horizon if environment else OWN_HORIZON)
    episodes = max(1, round(STEPS_PER_ITERATION / horizon))
    if environment is None:
        imports = f"import gymnasium\nimport numpy as np\n\n{BASE_IMPORT}"
        make = 'return Simulator(self.env_config["mass"])'  # its adapter and the seed come later
    else:
        imports, make = construction(environment, options)
    observes_image = environment is not None and environment.observes_image
    # Unity stacks frames itself, and wrappers may, too.
    has_stack = any("FrameStack" in call.name for call in options.wrappers)
    kind = environment.kind if environment else None
    stacks = observes_image and kind != "unity" and not has_stack
    is_discrete = environment is not None and environment.is_discrete
    recipe = recipe_for(algorithm, horizon, is_discrete)
    train_steps = min(recipe.train_steps * episodes * horizon, MOST_COUNT)
    return _PARAMS.format(
        title=title,
        slug=slug,
        imports=imports,
        simulator="" if environment else _SIMULATOR,
        make=make,
        per_iteration=episodes * horizon,
        train_steps="as many" if recipe.train_steps == 1 else f"{train_steps:,}",
        train_steps_per_iteration=train_steps,
        episodes_per_iteration=episodes,
        num_iter=-(-(ENV_STEPS if environment else 20_000) // (episodes * horizon)),
        episodes_in_buffer=max(
            1, (BUFFER_IMAGES if observes_image else BUFFER_ENV_STEPS) // horizon
        ),
        first_episodes=max(1, (FIRST_ENV_STEPS if environment else 1000) // horizon),
        eval_period=max(1, (EVAL_EVERY_ENV_STEPS if environment else 5000) // (episodes * horizon)),
        units=_units(environment),
        learning_settings=recipe.lines,
        image_settings=_IMAGE_SETTINGS if stacks else "",
    )


def _units(environment: EnvironmentId | None) -> int:
    """Returns the units of hidden layers; a layer generated from goals has units^3 weights."""
    if environment is None:
        return 64
    return 128 if environment.observes_goals else 256


def construction(environment: EnvironmentId, options: EnvironmentOptions) -> tuple[str, str]:
    """Returns the imports of a params file, and the body of its `env_ctor`."""
    package, module, _ = _LOADERS[environment.kind]
    modules = dict.fromkeys(call.module for call in options.wrappers)
    imports = "".join(f"import {name}\n" for name in sorted(modules)) + "\n" * bool(modules)
    imports += f"from tfagents_system.{package} import {module}\n"
    return imports + BASE_IMPORT, _make(environment, options)


def _make(environment: EnvironmentId, options: EnvironmentOptions) -> str:
    _, module, arguments = _LOADERS[environment.kind]
    domain, _, task = environment.name.partition("/")
    arguments = arguments.format(name=environment.name, domain=domain, task=task)
    adapter = _ADAPTERS.get(environment.kind)
    lines = []
    if options.kwargs:
        own = ", ".join(f'"{name}": {literal(value)}' for name, value in options.kwargs.items())
        lines.append(f"kwargs = {{{own}, **kwargs}}")
        if environment.kind == "dm_control":
            arguments += ", task_kwargs=kwargs"
    if adapter and options.horizon and options.horizon > environment.horizon:
        arguments += ', max_episode_steps=self.env_config["horizon"]'
    made = f"{module}.load({arguments})"
    if options.wrappers:
        if adapter:
            made = f"{module}.make({arguments.replace('seed=seed, ', '')})"
        lines.append(f"env = {made}")
        made = "env"
        for call in options.wrappers:
            given = f", {call.arguments}" if call.arguments else ""
            lines.append(f"env = {call.module}.{call.name}(env{given})")
        if adapter:
            made = f"{module}.{adapter}(env, seed=seed)"
    return "\n        ".join([*lines, f"return {made}"])


def config_text(environment: EnvironmentId | None, options: EnvironmentOptions) -> str:
    """Returns the JSON config."""
    usual = environment.horizon if environment else OWN_HORIZON
    config: dict[str, object] = {"horizon": options.horizon or usual}
    if environment is None:
        config["mass"] = 1.0
    else:
        config |= environment.config
    return json.dumps(config, indent=2) + "\n"


def variables_text(
    slug: str,
    environment: EnvironmentId | None,
    asked_for: str | None,
    options: EnvironmentOptions,
    more: Mapping[str, str] | None = None,
) -> str:
    """Returns the variables file; see `written_for` and `written_with`.

    Args:
      slug: Name of the project.
      environment: As in `params_text`.
      asked_for: The user's name for it.
      options: As in `params_text`.
      more: Values of more SAC_* variables.
    """
    origin = f"{_ORIGIN}{asked_for or environment} = {environment}\n" if environment else ""
    origin += "".join(f"# {flag}: {text}\n" for flag, text in options.flags().items())
    given = dict(more or {})
    if options.workers:
        given["SAC_NUM_COLLECT_WORKERS"] = str(options.workers)
    others = "".join(f': "${{{name}:={value}}}"\n' for name, value in given.items())
    return (
        "# shellcheck shell=bash disable=SC2034\n"
        f"{origin}"
        f"# Start: sac train {slug}_variables.sh   Paths are relative to where that is called.\n"
        "# docs/settings.md lists all variables; one that the caller sets wins.\n"
        f': "${{SAC_EXP_NAME:={slug}}}"\n'
        f': "${{SAC_PARAMS:={slug}_params.py}}"\n'
        f': "${{SAC_CONFIG:={slug}_config.json}}"\n'
        f"{others}"
    )


def written_for(variables: str) -> tuple[str, str] | None:
    """Returns the user's name for the environment of a variables file, and its full name.

    None if the file, from an earlier version or the user's own, does not have them.
    """
    for line in variables.splitlines():
        if line.startswith(_ORIGIN):
            asked_for, _, identity = line.removeprefix(_ORIGIN).partition(" = ")
            return asked_for.strip(), identity.strip()
    return None


def written_with(variables: str) -> dict[str, str]:
    """Returns the options of a variables file, as `EnvironmentOptions.flags` does."""
    lines = (re.fullmatch(r"# (--\w+): (.*)", line) for line in variables.splitlines())
    return {line[1]: line[2] for line in lines if line}
