"""The actor of a share. It runs in Ray's workers, whose Python may lack this project's packages.

It starts and stops the share as SLURM's batch script does; daemontools supervises the programs.
"""

import platform
import subprocess
import threading
from collections.abc import Mapping, Sequence

import ray

from tfagents_system.core.errors import EXIT_STOPPED


class ShareActor:
    """The programs of one share, on the host where Ray has placed this actor.

    They get SIGTERM when this process ends, however it ends.
    """

    def __init__(self) -> None:
        """Starts nothing."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def host(self) -> str:
        """Returns the name of this host."""
        return platform.node()

    def run(
        self,
        command: Sequence[str],
        folder: str,
        environ: Mapping[str, str],
        log: str,
        restart_count: int,
    ) -> int:
        """Blocks until the share has ended; a second call waits for the same programs.

        Args:
          command: Runs the share.
          folder: Working directory.
          environ: All variables of the share, except those that name its starter.
          log: File for its output.
          restart_count: How often Ray has had to start this actor again.

        Returns:
          Its exit code.

        Raises:
          OSError: If it cannot be started, because this host does not see the project's folder.
        """
        job = {
            "RAY_JOB_ID": ray.get_runtime_context().get_actor_id(),
            "RAY_RESTART_COUNT": str(restart_count),
        }
        with self._lock:
            if self._is_stopped:
                return EXIT_STOPPED
            if self._process is None:
                with open(log, "ab") as output:
                    # This thread waits for it, because the kernel sends TERM as soon as the thread
                    # that started it ends.
                    self._process = subprocess.Popen(
                        ["setpriv", "--pdeathsig", "TERM", *command],
                        cwd=folder,
                        env={**environ, **job},
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """Stops the share in order, without waiting."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                self._process.terminate()
