"""Starts the run that the SAC_* variables describe, where SAC_PLACEMENT says.

Example: python -m tfagents_system.launch.start   (run_script.sh and `sac train` do)
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping

from tfagents_system.core.errors import EXIT_FINISHED
from tfagents_system.core.process.process_start import launch_arguments
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.settings.variables import Settings

MODULE = "tfagents_system.launch.start"
WATCH_PERIOD_SECS = 1.0
_PROXIES = [f"{kind}_proxy" for kind in ("http", "https", "all", "grpc")]
# Variables that break gRPC to localhost, or the import of TensorFlow 2.15.
UNWANTED = (*_PROXIES, *map(str.upper, _PROXIES), "TF_USE_LEGACY_KERAS")
TOOLS = ("bin", "daemontools/usr/bin", "stunnel4/bin")  # in the environment made by setup.sh


def environment_of_runs(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns `environ` for the programs of a run, with this Python and its tools first."""
    kept = {name: value for name, value in environ.items() if name not in UNWANTED}
    # The folder of this environment, not the one that a link points to.
    folders = [str(pathlib.Path(sys.prefix) / tool) for tool in TOOLS]
    folders = [folder for folder in folders if os.path.isdir(folder)]
    return kept | {"PATH": os.pathsep.join([*folders, kept.get("PATH", os.defpath)])}


def start() -> int:
    """Becomes the run, submits it, or waits for its end; returns the exit code.

    Raises:
      ConfigError: For wrong input.
    """
    wanted = environment_of_runs(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    placement = Settings.from_environ(os.environ).placement
    if placement == "slurm":
        from tfagents_system.launch.clusters import slurm_placement

        slurm_placement.main()
    elif placement == "ray":
        from tfagents_system.launch.clusters import ray_placement

        return ray_placement.main()
    else:
        from tfagents_system.launch.local import run_share

        run_share.run_share(run_share.LOCAL)
    return EXIT_FINISHED


def run_apart(environ: Mapping[str, str], watch: Callable[[], object] | None = None) -> int:
    """Calls `start` in a separate process; returns the exit code.

    Until then, signals to this process go to the run, and `watch` is called each second.
    """
    run = subprocess.Popen([sys.executable, "-m", MODULE], **launch_arguments(environ))
    of_caller = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),  # a terminal sends it to both
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, frame: run.terminate()),
    }
    try:
        while watch is not None and run.poll() is None:
            watch()
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(WATCH_PERIOD_SECS)
        return run.wait()
    finally:  # a later run would inherit an ignored signal for good
        for number, handler in of_caller.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    run_tool(start, ["run_script.sh", *sys.argv[1:]])
