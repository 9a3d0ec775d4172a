"""The link between the hosts of a run: where its replay server is reached.

Each start of the core publishes `link.json` in the experiment's folder.
"""

import dataclasses
import pathlib
import time

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.files import read_json, write_json_atomically
from tfagents_system.core.paths import ExperimentPaths

CORE_TIMEOUT_SECS = 600.0


@dataclasses.dataclass(frozen=True)
class Link:
    """Where the newest core is reached."""

    host: str
    port: int


def publish(path: pathlib.Path, link: Link) -> None:
    """Replaces `link.json`."""
    write_json_atomically(path, dataclasses.asdict(link))


def await_link(paths: ExperimentPaths, timeout_secs: float = CORE_TIMEOUT_SECS) -> Link:
    """Returns the link of the newest core, for which it waits.

    Raises:
      ConfigError: If none has been published for long.
    """
    deadline = time.monotonic() + timeout_secs
    while (record := read_json(paths.link)) is None:
        if time.monotonic() > deadline:
            raise ConfigError(f"{paths.link} is missing: no core of this run has been started.")
        time.sleep(0.5)
    return Link(**record)
