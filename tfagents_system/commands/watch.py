"""Shows a run until it ends: programs, rates, who waits for whom, returns, errors.

Example: sac watch logs/pendulum

Works from any host that sees the experiment's folder. With --line, or if the output is not a
terminal, it prints one line. For a run that has ended, it prints the last state.
"""

import os
import pathlib
import sys
import time

from tfagents_system.commands.dashboard import Dashboard
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.launch.show import status
from tfagents_system.launch.show.ending import ending

PERIOD_SECS = 1.0


def watch(exp_dir: pathlib.Path, /, line: bool = False) -> None:
    """Shows the run until it has ended, or Ctrl-C.

    Args:
      exp_dir: Folder of the experiment.
      line: One line instead of a screen.

    Raises:
      ConfigError: If there is no such experiment.
    """
    if line or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        status.show(exp_dir)
    else:
        _show_screen(existing_experiment(exp_dir))


def _show_screen(paths: ExperimentPaths) -> None:
    from rich.live import Live  # takes a tenth of a second, which the line does not need

    watcher, dashboard = status.Watch(paths), Dashboard(paths)
    snapshot = watcher.look()
    with Live(dashboard.draw(snapshot), auto_refresh=False, screen=False) as live:
        while True:
            live.update(dashboard.draw(snapshot), refresh=True)
            if not snapshot.is_running:
                break
            time.sleep(PERIOD_SECS)
            snapshot = watcher.look()
    print(ending(paths))
