"""Starts the programs that mirror a run's records to Weights & Biases or MLflow."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.installed import is_installed
from tfagents_system.core.process.cpus import available_cpus
from tfagents_system.core.process.process_start import launch_prefix
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.local import subreaper
from tfagents_system.launch.local.places import Service

TRACKERS = ("wandb", "mlflow")


def program_name(tracker: str) -> str:
    """Returns the name of a tracker's mirror program, service, log and report."""
    return f"mirror-{tracker}"


def wanted(settings: Settings) -> list[str]:
    """Returns the trackers that the user asked for."""
    return [tracker for tracker in TRACKERS if getattr(settings, tracker)]


def check_has_packages(settings: Settings) -> None:
    """Raises ConfigError if the user asked for a tracker that `check_has_package` refuses."""
    for tracker in wanted(settings):
        check_has_package(tracker, os.environ)


def check_has_package(tracker: str, environ: Mapping[str, str]) -> None:
    """Raises ConfigError if the package of a tracker is missing, or its mode allows no mirror.

    Without a server, MLflow's own database needs more than the client package.
    """
    mode = environ.get("WANDB_MODE", "offline")
    if tracker == "wandb" and mode not in ("online", "offline"):
        raise ConfigError(
            f"The variable WANDB_MODE is {mode!r}; expected online or offline, or SAC_WANDB=0 for "
            "no mirror at all."
        )
    modules = ["wandb"] if tracker == "wandb" else ["mlflow"]
    if tracker == "mlflow" and not environ.get("MLFLOW_TRACKING_URI"):
        modules += ["sqlalchemy", "alembic"]
    missing = [name for name in modules if not is_installed(name)]
    if missing:
        raise ConfigError(
            f"To mirror a run to {tracker}, {' and '.join(missing)} must be installed in "
            f"{sys.prefix}. Call {how_to_install(tracker)}"
        )


def services(settings: Settings, paths: ExperimentPaths) -> list[Service]:
    """Returns the mirror programs; they get the CPU time that the run's programs leave over."""
    found = []
    for tracker in wanted(settings):
        argv = ("nice", "-n", "19", sys.executable, "-m", "tfagents_system", "mirror",
                str(paths.root), "--to", tracker)  # fmt: skip
        environ = {"PYTHONUNBUFFERED": "1"}
        found.append(Service(program_name(tracker), argv, tuple(available_cpus()), environ))
    return found


def start(services: Sequence[Service], folder: pathlib.Path) -> None:
    """Starts the mirrors among `services` under supervise.

    Call it before this process enters the private network, because mirrors must reach trackers.
    This process becomes train_script.sh, which ends them; it finds the process id of each supervise
    in the service's folder.
    """
    names = list(map(program_name, TRACKERS))
    for service in [service for service in services if service.name in names]:
        service_dir = folder / service.name
        command = ["setpriv", "--pdeathsig", "TERM", "setlock", "-n", str(service_dir / "lock"),
                   "pgrphack", *launch_prefix(), sys.executable, "-m", subreaper.MODULE,
                   "supervise", str(service_dir)]  # fmt: skip
        process = subprocess.Popen(command, close_fds=False)  # so that they hold the run's lock
        (service_dir / "supervise.pid").write_text(f"{process.pid}\n")
