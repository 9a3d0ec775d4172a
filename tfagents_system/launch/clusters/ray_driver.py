"""Drives a run on Ray: places its actors, restarts lost ones, shows the status, stops the run."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tfagents_system.core.checkout import PROJECT
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, EXIT_STORAGE, ConfigError
from tfagents_system.core.process.process_start import launch_arguments
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.clusters.ray_actor import ShareActor
from tfagents_system.launch.clusters.ray_plan import PlannedActor, shortage
from tfagents_system.launch.local import stop_times
from tfagents_system.launch.show.ending import ending
from tfagents_system.launch.show.status import Watch
from tfagents_system.launch.show.status_line import status_line

MAX_RESTARTS = 100  # restarts of an actor by Ray
PROBE_SECS = 10.0
# An actor that loses its driver or its Ray node would kill its processes with SIGKILL. With this,
# they get SIGTERM, save, and remove their folder.
GENTLE = {"RAY_kill_child_processes_on_worker_exit": "0"}
# The wait if the cluster has too few CPUs even when it is idle: an autoscaler may add nodes.
PLACEMENT_SECS = 600.0
PERIOD_SECS = 1.0
STATUS_PERIOD_SECS = 10.0
# Time for an orderly end.
COLLECTORS_SECS, CORE_SECS = stop_times.COLLECTORS_SECS, stop_times.STOP_SECS
LAST_LINES = 20  # of the output of a failed share


@dataclasses.dataclass(eq=False)
class Placed:
    """A share with its actor."""

    planned: PlannedActor
    actor: Any
    answer: Any  # a reference to its host while Ray places it, then to its exit code
    host: str | None = None  # None while Ray places it
    num_restarts: int = 0
    code: int | None = None  # once it has ended


class Driver:
    """Runs a run through a connection to Ray, for the time of a `with` block."""

    def __init__(self, settings: Settings, planned: Sequence[PlannedActor]):
        """Connects to nothing yet; the first of `planned` is the core."""
        self._address = settings.ray_address or "auto"
        self._paths = ExperimentPaths(settings.exp_dir)
        self._planned = planned
        self._group: Any = None
        self._placed: list[Placed] = []
        self._is_to_stop = False

    def __enter__(self) -> "Driver":
        """Connects; from now on INT, TERM and HUP stop the run.

        Raises:
          ConfigError: If there is no cluster at the address, it rejects this user, or it already
            runs this experiment.
        """
        _check_answers(self._address)
        python_path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
        try:
            ray.init(
                self._address,
                namespace=str(self._paths.root.absolute()),  # names of actors are unique there
                runtime_env={"env_vars": {"PYTHONPATH": python_path} | GENTLE},
                logging_level="ERROR",
                log_to_driver=False,
            )
        except Exception as error:  # exceptions of Ray, of gRPC, or of the system
            raise ConfigError(
                f"SAC_RAY_ADDRESS is {self._address}, and the Ray cluster there does not take "
                f"this run: {error}"
            ) from None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop_soon)
        core = self._name(self._planned[0])
        with contextlib.suppress(ValueError):  # there is none
            ray.get_actor(core)
            ray.shutdown()
            raise ConfigError(
                f"{self._paths.root} runs on Ray already: its actor {core} exists. Wait for "
                "its end, stop its driver, or choose another SAC_EXP_NAME."
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Releases everything; Ray kills what still runs."""
        if self._group is not None:
            remove_placement_group(self._group)
        ray.shutdown()

    def run(self, environ: Mapping[str, str]) -> int:
        """Places the shares of a prepared run and blocks until its end; returns the exit code.

        Args:
          environ: All variables of the shares.

        Raises:
          ConfigError: If the cluster has too few CPUs, or a node does not see the project.
        """
        if self._reserve():
            self._placed = [self._place(k, planned) for k, planned in enumerate(self._planned)]
            core, *collectors = self._placed
            watch, shown = Watch(self._paths), time.monotonic()
            while not self._is_to_stop and core.code is None:
                if all(placed.code for placed in collectors):
                    _say("No share with workers is left: stopping the run.")
                    return self._end(max(placed.code or 0 for placed in collectors))
                self._look(environ)
                if time.monotonic() - shown > STATUS_PERIOD_SECS and core.host:
                    shown = time.monotonic()
                    snapshot = watch.look()
                    for text in (*watch.news(snapshot), status_line(snapshot)):
                        _say(text)
        return self._end()

    def _reserve(self) -> bool:
        """Blocks until Ray has reserved the CPUs of all shares; returns False on a stop."""
        bundles = [{"CPU": planned.num_cpus} for planned in self._planned]
        self._group = placement_group(bundles, strategy="SPREAD", name=f"sac:{self._exp_name}")
        began = shown = time.monotonic()
        while not self._group.wait(PERIOD_SECS):
            if self._is_to_stop:
                return False
            cpus = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
            lack = shortage(self._planned, cpus)
            if lack and time.monotonic() - began > PLACEMENT_SECS:
                raise ConfigError(f"The run needs {lack}. Add nodes, or ask for less.")
            if time.monotonic() - shown > STATUS_PERIOD_SECS:
                shown = time.monotonic()
                wanted = sum(planned.num_cpus for planned in self._planned)
                _say(f"waiting for {lack or f'{wanted} CPUs, which others use'}")
        return True

    def _place(self, index: int, planned: PlannedActor) -> Placed:
        actor = (
            ray.remote(ShareActor)
            .options(
                name=self._name(planned),
                num_cpus=planned.num_cpus,
                max_restarts=MAX_RESTARTS,
                max_concurrency=4,  # so that it can be queried and stopped while it runs
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    self._group, placement_group_bundle_index=index
                ),
            )
            .remote()
        )
        return Placed(planned, actor, actor.host.remote())

    def _look(self, environ: Mapping[str, str]) -> None:
        """Waits PERIOD_SECS for answers of actors; starts shares that Ray has placed."""
        waiting = {placed.answer: placed for placed in self._placed if placed.code is None}
        ready, _ = ray.wait(list(waiting), timeout=PERIOD_SECS)
        for placed in map(waiting.__getitem__, ready):
            roles = placed.planned.roles
            try:
                answer = ray.get(placed.answer)
            except ActorUnavailableError:
                if placed.host is not None:
                    _say(f"{roles} is lost with its actor on {placed.host}; Ray places it again")
                    placed.host = None
                    placed.num_restarts += 1
                time.sleep(PERIOD_SECS)  # before it is placed, calls may fail at once
                placed.answer = placed.actor.host.remote()
            except RayActorError as error:
                _say(f"{roles} is lost for good: {error}")
                placed.code = 1
            except RayTaskError as error:
                raise ConfigError(
                    f"{roles} cannot start on {placed.host}: {error.cause}. All nodes have to see "
                    f"{PROJECT} under this path."
                ) from None
            else:
                self._take(placed, answer, environ)

    def _take(self, placed: Placed, answer: Any, environ: Mapping[str, str]) -> None:
        """Handles the answer of an actor: the name of its host, or its exit code."""
        planned = placed.planned
        if placed.host is not None:
            placed.code = answer
            if answer != EXIT_FINISHED:
                _say(f"{planned.roles} has ended with exit code {answer}: {self._log(planned)}")
            return
        placed.host = answer
        _say(f"{planned.roles} is on {answer}")
        command = (
            sys.executable,
            "-m",
            "tfagents_system.launch.local.run_share",
            *planned.arguments,
        )
        log = str(self._log(planned).absolute())
        place = launch_arguments(environ)
        placed.answer = placed.actor.run.remote(
            command, place["cwd"], place["env"], log, placed.num_restarts
        )

    def _end(self, code: int | None = None) -> int:
        """Ends all shares, workers first; returns the exit code of the run.

        That is `code`, or by default the core's.
        """
        core = self._placed[:1]
        if self._is_to_stop or not core:
            code = EXIT_STOPPED
        elif code is None:
            code = core[0].code
        if code == EXIT_FINISHED:
            _await_end(self._placed, COLLECTORS_SECS)  # they notice it, and end by themselves
        elif self._placed:
            _say("Ending the workers, then the learner (which saves), then the replay server.")
        _stop(self._placed[1:], COLLECTORS_SECS)
        _stop(core, CORE_SECS)
        if self._is_to_stop and core and _answer_of(core[0]) == EXIT_STORAGE:
            code = EXIT_STORAGE  # stopped, but not saved
        if code not in (EXIT_FINISHED, EXIT_STOPPED):
            with contextlib.suppress(FileNotFoundError):  # its actor was never placed
                lines = self._log(self._planned[0]).read_text(errors="replace").splitlines()
                print("\n".join(lines[-LAST_LINES:]), file=sys.stderr)
        _say(ending(self._paths))
        return code if code is not None else 1

    def _stop_soon(self, number: int, frame: object) -> None:
        self._is_to_stop = True

    @property
    def _exp_name(self) -> str:
        return self._paths.root.name

    def _name(self, planned: PlannedActor) -> str:
        return f"sac:{self._exp_name}:{planned.roles}"

    def _log(self, planned: PlannedActor) -> pathlib.Path:
        return self._paths.ray / f"{planned.roles}.log"


def _stop(group: Sequence[Placed], timeout_secs: float) -> None:
    for placed in group:
        if placed.code is None:
            placed.actor.stop.remote()
    _await_end(group, timeout_secs)


def _await_end(group: Sequence[Placed], timeout_secs: float) -> None:
    """Waits for running shares; actors that are lost meanwhile are not placed again."""
    answers = [placed.answer for placed in group if placed.host and placed.code is None]
    if answers:
        ray.wait(answers, num_returns=len(answers), timeout=timeout_secs)


def _answer_of(placed: Placed) -> int | None:
    """Returns the exit code of a share; None if it has not ended, or its actor is lost."""
    if placed.code is not None or not placed.host:
        return placed.code
    with contextlib.suppress(ray.exceptions.RayError):
        return ray.get(placed.answer, timeout=0)
    return None


def _check_answers(address: str) -> None:
    """Raises ConfigError if nothing listens at host:port or ray://host:port."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host:
            socket.create_connection((host, int(port)), PROBE_SECS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"SAC_RAY_ADDRESS is {address}, where nothing answers ({error}). Start Ray there "
            "(ray start --head), or correct the address."
        ) from None


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
