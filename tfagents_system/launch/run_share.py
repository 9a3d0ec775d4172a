"""Runs a share of a run on this host: checks, places its programs, becomes train_script.sh.

Example: python -m tfagents_system.launch.run_share core

A share is what one host runs of the run that the SAC_* variables describe:
  local                   everything (run_script.sh)
  core                    the replay server and the learner
  workers FIRST COUNT     the workers FIRST, FIRST + 1, ...; they may come and go at any time
  evaluators FIRST COUNT  programs that only evaluate
The share `local` or `core` checks the input, makes or resumes the experiment's folder and holds its
lock; on wrong input it prints one message and exits with 78, and no file has been changed then. The
others wait until a core has published its link. SIGTERM stops a share in order; its exit code is 0
(finished), 70, 78, 143 (stopped, with everything saved) or 1.
"""

import dataclasses
import io
import os
import pathlib
import platform
import signal
import sys
import tempfile
from typing import Annotated

from tfagents_system.core.command_line import AtLeast, OneOf, run_tool
from tfagents_system.core.cpus import available_cpus, cpu_list
from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.core.ports import check_port_is_free, free_port
from tfagents_system.core.settings import Settings
from tfagents_system.launch import experiment, link, plan
from tfagents_system.launch.packages import check_packages
from tfagents_system.launch.places import Service, cpu_table, place
from tfagents_system.launch.prepare import PROJECT, explained_os_errors, prepare
from tfagents_system.launch.private_network import network_line, why_open, with_private_network
from tfagents_system.launch.service_dirs import write_service_dirs

LOCAL, CORE, WORKERS, EVALUATORS = KINDS = ("local", "core", "workers", "evaluators")


@dataclasses.dataclass(frozen=True)
class Share:
    """What this host is to run."""

    kind: str  # one of KINDS
    first: int = 0  # number of the first worker or evaluator
    count: int = 1  # of workers or evaluators

    @property
    def has_learner(self) -> bool:
        """Whether the experiment's folder is this share's to make and to lock."""
        return self.kind in (LOCAL, CORE)

    def programs(
        self, settings: Settings, exp_dir: pathlib.Path, num_cpus: int
    ) -> list[plan.Program]:
        """Returns what the share runs; see plan.py."""
        if self.kind == LOCAL:
            return plan.everything(settings, exp_dir, num_cpus)
        if self.kind == CORE:
            return plan.core(settings, exp_dir, num_cpus)
        collectors = plan.workers if self.kind == WORKERS else plan.evaluators
        return collectors(settings, exp_dir, range(self.first, self.first + self.count))


def set_up(settings: Settings, share: Share, open_because: str | None) -> list[str]:
    """Writes what the share needs on disk, and returns the command that runs it.

    Args:
      settings: What the user asked for.
      share: What this host is to run.
      open_because: Why its programs have no private network; None if they have one.

    Raises:
      ConfigError: For wrong input.
    """
    paths = ExperimentPaths(settings.exp_dir.absolute())

    def place_here(address: str) -> list[Service]:
        if share.has_learner and settings.reverb_port is not None:
            check_port_is_free(settings.reverb_port)
        cpus = available_cpus()
        programs = share.programs(settings, paths.root, len(cpus))
        return place(programs, cpus, plan.may_share_cpus(settings), address)

    if share.has_learner:
        is_new = experiment.is_new(ExperimentPaths(settings.exp_dir))
        port = settings.reverb_port or free_port()
        services, _ = prepare(settings, lambda: place_here(f"localhost:{port}"))
        if share.kind == CORE:
            link.publish(paths.link, link.Link(platform.node(), port))
    else:
        is_new = False
        found = link.await_link(paths)
        services = place_here(f"{found.host}:{found.port}")
    folder = paths.services if share.kind == LOCAL else _folder_on_this_host()
    write_service_dirs(services, folder, paths, PROJECT)
    where = "This job" if share.kind == LOCAL else f"share {share.kind} on {platform.node()}: it"
    print(f"{where} may use CPU {cpu_list(available_cpus())}:\n{cpu_table(services)}")
    print(network_line(open_because), flush=True)
    command = [str(PROJECT / "train_script.sh"), str(settings.exp_dir), str(folder)]
    if is_new:
        command.append("new")
    return command if open_because else with_private_network(command)


def _folder_on_this_host() -> pathlib.Path:
    """Makes a folder that only this user can enter, on a disk of this host."""
    return pathlib.Path(tempfile.mkdtemp(prefix="sac_")) / "service"


def run_share(
    kind: Annotated[str, OneOf(KINDS)],
    first: Annotated[int, AtLeast(0)] = 0,
    count: Annotated[int, AtLeast(1)] = 1,
    /,
) -> None:
    """Becomes the programs of a share.

    Args:
      kind: local, core, workers or evaluators.
      first: Number of the first worker or evaluator of the share.
      count: How many of them it has.

    Raises:
      ConfigError: For wrong input.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # without a traceback or a half-made folder
        if signal.getsignal(number) != signal.SIG_IGN:  # in the background of a script
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may be any bytes
    check_packages()
    settings = Settings.from_environ(os.environ)
    with explained_os_errors(_name(kind), settings):
        open_because = why_open(settings.private_network, settings.exp_dir)
        command = set_up(settings, Share(kind, first, count), open_because)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    os.execv(command[0], command)


def _name(kind: str) -> str:
    """Returns the name of the command that users know, for messages."""
    return "run_script.sh" if kind == LOCAL else f"share {kind} on {platform.node()}"


if __name__ == "__main__":
    run_tool(run_share, [_name(*sys.argv[1:2] or [LOCAL]), *sys.argv[1:]])
