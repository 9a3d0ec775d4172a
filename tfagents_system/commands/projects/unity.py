"""Describes a Unity build for a project's files, by starting it once."""

import dataclasses

from tfagents_system.commands.mlagents.unity import with_build_settings
from tfagents_system.commands.projects.environment_ids import EnvironmentId
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.environment_trial import check_kwargs
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST, UserCodeError


def described(environment: EnvironmentId, options: EnvironmentOptions) -> EnvironmentId:
    """Returns a Unity build with the specs of the behavior and the facts that settings need.

    Other environments are returned unchanged.

    Raises:
      ConfigError: If the build does not start, an option is wrong, or there are several behaviors
        and none is chosen.
    """
    if environment.kind != "unity":
        return environment
    # Imported here, because this needs TF-Agents, which takes seconds.
    from tfagents_system.environments import unity_adapter
    from tfagents_system.environments.closing import closed_at_end

    if options.wrappers:
        raise ConfigError(
            f"--wrap does not go with {environment}, whose agents share one simulator."
        )
    options = with_build_settings(options)
    check_kwargs(environment, options)
    kwargs = dict(options.kwargs)
    if options.mlagents and options.mlagents.behavior:
        kwargs.setdefault("behavior", options.mlagents.behavior)
    try:
        with GUEST.visit(environment.name):
            made = unity_adapter.load(environment.name, **kwargs)
    except UserCodeError as error:
        if isinstance(error.__cause__, ConfigError):
            raise error.__cause__ from error
        raise ConfigError(f"{environment} cannot be made: {error.reason}") from error
    with closed_at_end(made):
        behavior = made.behavior
    sees = any(sensor.dtype == "uint8" for sensor in behavior.sensors)
    return dataclasses.replace(
        environment,
        observes_image=sees,
        observes_goals=any(sensor.is_goal for sensor in behavior.sensors),
        is_discrete=not behavior.num_continuous,
        is_one_vector=not behavior.branches,
        config={"specs": behavior.to_json()},
    )
