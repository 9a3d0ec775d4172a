"""Runs a run on a Ray cluster: an actor for each share, until the end of training.

Example: python -m tfagents_system.launch.clusters.ray_placement   (run_script.sh does)

The SAC_* variables say what to run; run_script.sh calls it if SAC_PLACEMENT is ray.

Checks all input and makes or resumes the experiment's folder, as for a run on this machine. Ray
places the actors, again if their node dies. The shares' output is in logs/<exp>/ray. This program
is the run's driver: it prints the status and ends with the run; on INT, TERM or HUP it first stops
the run. Exit codes: 0 finished, 70 diverged, 74 the disk fails, 78 wrong input, 143 stopped with
everything saved, 1 other failures.
"""

import os
import shutil
import sys

from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.installed import is_installed
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.checks.packages import check_packages
from tfagents_system.launch.clusters.demand import Demand
from tfagents_system.launch.clusters.ray_plan import actors, share_environ
from tfagents_system.launch.experiment import folder as experiment
from tfagents_system.launch.experiment.offline import without_collection
from tfagents_system.launch.local.prepare import explained_os_errors, prepare


def run_on_ray(settings: Settings) -> int:
    """Runs the run to its end; returns the exit code.

    Raises:
      ConfigError: For wrong input, if the experiment runs already, or if no Ray cluster can take
        it.
    """
    demand = Demand.of(settings)
    if not is_installed("ray"):
        raise ConfigError(
            "SAC_PLACEMENT is ray, and the package ray is missing. Call "
            f"{how_to_install('ray')}; or install the version that your cluster has: "
            f"{sys.executable} -m pip install 'ray[client]==VERSION'"
        )
    from tfagents_system.launch.clusters.ray_driver import Driver  # which imports ray

    paths = ExperimentPaths(settings.exp_dir)
    is_ours, code = False, EXIT_CONFIG  # a new folder, which another start may make meanwhile
    try:
        with Driver(settings, actors(demand)) as driver:
            is_new = experiment.is_new(paths)
            _, lock = prepare(settings, lambda: [])
            is_ours = is_new
            os.close(lock)  # the core's share takes the lock
            paths.ray.mkdir(exist_ok=True)
            code = driver.run(share_environ(os.environ, demand, paths.root.name))
    finally:
        if is_ours and code == EXIT_CONFIG and paths.root.exists() and not paths.run_spec.exists():
            shutil.rmtree(paths.root)
            print(f"{paths.root} was not kept: nothing had been trained.", file=sys.stderr)
    return code


def main() -> int:
    """Runs the run of the SAC_* variables."""
    check_packages()
    settings = Settings.from_environ(os.environ)
    with explained_os_errors("run_script.sh", settings):
        return run_on_ray(without_collection(settings))


if __name__ == "__main__":
    run_tool(main, ["run_script.sh", *sys.argv[1:]])
