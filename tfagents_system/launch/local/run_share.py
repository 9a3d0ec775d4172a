"""Runs a share of a run on this host: checks, places its programs, becomes train_script.sh.

Example: python -m tfagents_system.launch.local.run_share core

A share is the part of a run that one host runs; the SAC_* variables describe the run:
  local                   everything (run_script.sh)
  core                    the replay server and the learner
  workers FIRST COUNT     the workers FIRST, FIRST + 1, ...; they may come and go at any time
  evaluators FIRST COUNT  programs that only evaluate
The share `local` or `core` checks the input, makes or resumes the experiment's folder and holds its
lock; on wrong input it prints one message, changes no file, and exits with 78. The others wait
until a core has published its link. SIGTERM stops a share in order; its exit code is 0 (finished),
70 (diverged), 74 (the disk fails), 75 (a later start has taken over), 78 (wrong input), 143
(stopped, with everything saved) or 1.
"""

import contextlib
import dataclasses
import io
import os
import pathlib
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Annotated

from tfagents_system.core.checkout import PROJECT
from tfagents_system.core.errors import EXIT_SUPERSEDED, SupersededError
from tfagents_system.core.process import memory
from tfagents_system.core.process.cpus import available_cpus, cpu_count, cpu_list
from tfagents_system.core.process.ending import print_error
from tfagents_system.core.process.ports import check_port_is_free, free_port
from tfagents_system.core.process.process_start import launch_prefix
from tfagents_system.core.process.processes import adopt_orphans
from tfagents_system.core.programs.command_line import AtLeast, OneOf, run_tool
from tfagents_system.core.programs.limits import raise_file_limit, shortages
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.incarnation import CORE as THE_CORE
from tfagents_system.core.state.incarnation import Claims, Fence, Job
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.checks.packages import check_packages
from tfagents_system.launch.experiment import folder as experiment
from tfagents_system.launch.experiment.offline import without_collection
from tfagents_system.launch.link.hosts import Link, await_link, check_hosts_are_safe, listen
from tfagents_system.launch.link.relay import write_core_end
from tfagents_system.launch.local import mirrors, plan
from tfagents_system.launch.local.host_check import check_host
from tfagents_system.launch.local.places import Service, cpu_table, in_incarnation, place_here
from tfagents_system.launch.local.prepare import explained_os_errors, prepare
from tfagents_system.launch.local.private_network import (
    network_line,
    why_open,
    with_private_network,
)
from tfagents_system.launch.local.service_dirs import write_service_dirs

LOCAL, CORE, WORKERS, EVALUATORS = KINDS = ("local", "core", "workers", "evaluators")
SERVICES, RELAY = "service", "relay"  # folders of a share on its host
TRAIN_SCRIPT = pathlib.Path(__file__).with_name("train_script.sh")
MAX_SOCKET_PATH = 100  # bytes; Linux has 107


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of a run that this host runs."""

    kind: str  # one of KINDS
    first: int = 0  # number of the first worker or evaluator
    count: int = 1  # of workers or evaluators

    @property
    def has_learner(self) -> bool:
        """Whether this share makes and locks the experiment's folder."""
        return self.kind in (LOCAL, CORE)

    def programs(
        self, settings: Settings, exp_dir: pathlib.Path, num_cpus: int
    ) -> list[plan.Program]:
        """Returns the programs of the share; see plan.py."""
        if self.kind == LOCAL:
            return plan.everything(settings, exp_dir, num_cpus, memory.total_bytes())
        if self.kind == CORE:
            return plan.core(settings, exp_dir, num_cpus)
        collectors = plan.workers if self.kind == WORKERS else plan.evaluators
        return collectors(settings, exp_dir, range(self.first, self.first + self.count))


def set_up(settings: Settings, share: Share, open_because: str | None) -> list[str]:
    """Writes the files that the share needs, and returns the command that runs it.

    Args:
      settings: The user's settings.
      share: The share of this host.
      open_because: Why its programs have no private network; None if they have one.

    Raises:
      ConfigError: For wrong input.
      SupersededError: If another host has meanwhile started the core.
    """
    paths = ExperimentPaths(settings.exp_dir.absolute())
    is_new = share.has_learner and experiment.is_new(ExperimentPaths(settings.exp_dir))
    with _folder_of(share, paths) as folder:
        if share.has_learner:
            services = _core_services(settings, share, paths, folder, open_because is None)
        else:
            services = _worker_services(settings, share, paths, folder, open_because is None)
        if not services:
            print(f"share {share.kind}: the run in {paths.root} is finished; nothing to do.")
            sys.exit(0)
        write_service_dirs(services, folder / SERVICES, paths, PROJECT)
        mirrors.start(services, folder / SERVICES)
    where = "This job" if share.kind == LOCAL else f"share {share.kind} on {platform.node()}: it"
    quota = "" if cpu_count() == len(available_cpus()) else f", the time of {cpu_count()} of them"
    print(f"{where} may use CPU {cpu_list(available_cpus())}{quota}:\n{cpu_table(services)}")
    for shortage in shortages(len(services)):
        if shortage.is_fatal:
            print(f"WARNING: {shortage.text}. {shortage.advice}")
    print(network_line(open_because), flush=True)
    command = [str(TRAIN_SCRIPT), str(settings.exp_dir), str(folder / SERVICES)]
    if is_new:
        command.append("new")
    is_private = open_because is None and share.has_learner
    return [*launch_prefix(), *with_private_network(command)] if is_private else command


def _core_services(
    settings: Settings,
    share: Share,
    paths: ExperimentPaths,
    folder: pathlib.Path,
    is_private: bool,
) -> list[Service]:
    """Makes or resumes the experiment; returns the services of the core's share."""
    port = settings.reverb_port or free_port()

    def place_here() -> list[Service]:
        check_host(paths.root, available_cpus())
        if settings.reverb_port is not None and not is_private:  # a private network has its own
            check_port_is_free(settings.reverb_port)
        return _place(settings, share, paths, f"localhost:{port}")

    job = Job.from_environ(os.environ)
    services, _ = prepare(settings, place_here, job)
    services += mirrors.services(settings, paths)
    incarnation = Claims(paths.incarnations).claim(THE_CORE, job)
    services = [in_incarnation(service, incarnation) for service in services]
    if share.kind == CORE:
        shutil.rmtree(paths.services, ignore_errors=True)  # of a run on one host
        listener = listen()
        listener.set_inheritable(True)  # the relay inherits it, through all programs in between
        link = Link.of_this_host(incarnation, listener.getsockname()[1])
        write_core_end(_make_relay_folder(folder), link, port)
        services.append(_relay("relay", paths, folder, f"--listener={listener.detach()}"))
        Fence.of_core(paths, incarnation).check()  # this host may have hung since the claim
        link.publish(paths)
    return services


def _worker_services(
    settings: Settings, share: Share, paths: ExperimentPaths, folder: pathlib.Path, is_alone: bool
) -> list[Service]:
    """Waits for a core; returns workers or evaluators, and their relay; none after the end."""
    if await_link(paths) is None:
        return []
    check_host(folder, available_cpus())
    replay_socket = _make_relay_folder(folder) / "replay"
    services = [
        dataclasses.replace(service, is_alone=is_alone)
        for service in _place(settings, share, paths, f"unix:{replay_socket}")
    ]
    return [_relay(f"relay_{services[0].name}", paths, folder), *services]


def _place(settings: Settings, share: Share, paths: ExperimentPaths, address: str) -> list[Service]:
    return place_here(settings, share.programs(settings, paths.root, cpu_count()), address)


def _relay(name: str, paths: ExperimentPaths, folder: pathlib.Path, *flags: str) -> Service:
    """Returns the relay of this host, which needs little CPU time."""
    module = "tfagents_system.launch.link.relay"
    argv = (sys.executable, "-m", module, str(paths.root), str(folder / RELAY), *flags)
    return Service(name, argv, tuple(available_cpus()), {"PYTHONUNBUFFERED": "1"})


def _make_relay_folder(folder: pathlib.Path) -> pathlib.Path:
    (folder / RELAY).mkdir(mode=0o700)
    return folder / RELAY


@contextlib.contextmanager
def _folder_of(share: Share, paths: ExperimentPaths) -> Iterator[pathlib.Path]:
    """Yields the folder of a share's files; train_script.sh removes it, or we do on an error.

    For a run on one host it is the experiment's folder, otherwise a folder on this host's own disk
    that only this user can enter. It also holds the temporary files of all programs.
    """
    if share.kind == LOCAL:
        yield paths.root
        return
    folder = tempfile.mkdtemp(prefix="sac_")
    if len(f"{folder}/{RELAY}/replay") > MAX_SOCKET_PATH:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="sac_", dir="/tmp")
    os.environ["TMPDIR"] = folder
    try:
        yield pathlib.Path(folder)
    except BaseException:  # a signal raises SystemExit
        shutil.rmtree(folder)
        raise


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
      count: Number of them.

    Raises:
      ConfigError: For wrong input.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # leave no traceback or half-made folder
        if signal.getsignal(number) != signal.SIG_IGN:  # in the background of a script
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may be any bytes
    check_packages()
    settings = Settings.from_environ(os.environ)
    with explained_os_errors(_name(kind), settings):
        open_because = why_open(settings.private_network, settings.exp_dir)
        if kind != LOCAL:
            check_hosts_are_safe(settings.private_network, open_because)
        if kind in (LOCAL, CORE):  # the other shares of a run are planned by then
            settings = without_collection(settings)
        try:
            command = set_up(settings, Share(kind, first, count), open_because)
        except SupersededError as error:
            print_error([_name(kind)], error)
            sys.exit(EXIT_SUPERSEDED)
    raise_file_limit()
    adopt_orphans()  # if its supervise is killed
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)


def _name(kind: str) -> str:
    """Returns the command's name for messages, as users know it."""
    return "run_script.sh" if kind == LOCAL else f"share {kind} on {platform.node()}"


if __name__ == "__main__":
    run_tool(run_share, [_name(*sys.argv[1:2] or [LOCAL]), *sys.argv[1:]])
