"""The relay program: this host's end of the encrypted link to the replay server.

Example: python -m tfagents_system.launch.link.relay logs/pendulum /tmp/sac_x

Keeps stunnel running (TLS 1.3 with a pre-shared key) in a folder that only this user can enter.
On a host of workers, stunnel listens on the Unix socket `replay` in that folder. The relay follows
`link.json`, so that the same socket leads to a new core with another address and key. On the
core's host (`--listener`), stunnel accepts connections from a listening socket that run_share.py
has opened in the host's network, and forwards them to the replay server in the private network, in
which this program also runs.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time
from typing import Annotated

from tfagents_system.core.errors import EXIT_STOPPED, ConfigError
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.program import StopFlag, run_program
from tfagents_system.core.state.files import write_text_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.link.hosts import Link
from tfagents_system.launch.link.reachability import Probe, is_stalled

PERIOD_SECS = 1.0  # of checks of link.json and stunnel
STALLED_LOOKS = 4  # checks in a row after which connections count as stalled
STOP_SECS = 5.0
MAX_QUICK_ENDS = 5  # ends of stunnel in a row, each within QUICK_SECS
QUICK_SECS = 10.0
ACTIVATED_FD = 3  # descriptor of an inherited socket (systemd's socket activation)
# {side}: stunnel's side towards the other host. Keep-alive probes every five seconds declare a lost
# peer dead within a minute, and soon end connections that the peer has closed during an outage.
# local: Reverb mistakes a peer at 127.0.0.1 with its own process id for its own process, and the
# peer crashes; process ids repeat between hosts.
CONFIG = """\
foreground = yes
pid =
syslog = no
debug = err
socket = {side}:TCP_NODELAY=1
socket = {side}:SO_KEEPALIVE=1
socket = {side}:TCP_KEEPIDLE=5
socket = {side}:TCP_KEEPINTVL=5
socket = {side}:TCP_KEEPCNT=11
[replay]
sslVersionMin = TLSv1.3
ciphersuites = TLS_AES_128_GCM_SHA256
ciphers = PSK
PSKsecrets = {folder}/key
TIMEOUTconnect = 5
TIMEOUTidle = 604800
"""
CORE_END = "accept = 1\nconnect = 127.0.0.1:{port}\nlocal = 127.0.0.2\n"
WORKER_END = "client = yes\naccept = {folder}/replay\nconnect = {address}\n"


def find_stunnel() -> str:
    """Returns the path of stunnel.

    Raises:
      ConfigError: If there is none.
    """
    for name in ("stunnel4", "stunnel"):
        if path := shutil.which(name):
            return path
    raise ConfigError(
        "stunnel, which encrypts what goes from host to host, is not on PATH. Install "
        "the package stunnel4; in a checkout, SAC_PLACEMENT=slurm ./setup.sh does it without root, "
        "where there is internet, and prints the folders for the front of PATH."
    )


def write_core_end(folder: pathlib.Path, link: Link, port: int) -> None:
    """Configures stunnel to forward connections of key holders to `port` of 127.0.0.1."""
    _write(folder, link.key, CONFIG.format(folder=folder, side="l") + CORE_END.format(port=port))


def write_worker_end(folder: pathlib.Path, link: Link, address: str) -> None:
    """Configures stunnel to connect the socket `replay` to a core at `address`."""
    end = WORKER_END.format(folder=folder, address=address)
    _write(folder, link.key, CONFIG.format(folder=folder, side="r") + end)


def _write(folder: pathlib.Path, key: str, config: str) -> None:
    write_text_atomically(folder / "key", f"run:{key}\n", mode=0o600)
    write_text_atomically(folder / "stunnel.conf", config)


class Stunnel:
    """A stunnel process, which ends with this one."""

    def __init__(self, folder: pathlib.Path, listener: int):
        """Starts nothing; `listener` is the descriptor of a listening socket, 0 for none."""
        self._command = [find_stunnel(), str(folder / "stunnel.conf")]
        self._socket = folder / "replay"
        self._process: subprocess.Popen[bytes] | None = None
        self._began = float("-inf")
        self._num_quick_ends = 0
        if listener:
            os.dup2(listener, ACTIVATED_FD)
            activation = 'export LISTEN_FDS=1 LISTEN_PID=$$ && exec "$@"'
            self._command = ["sh", "-c", activation, "sh", *self._command]
        self._descriptors = (ACTIVATED_FD,) if listener else ()

    def start(self) -> None:
        """Starts stunnel, in place of a running one."""
        self.end()
        self._socket.unlink(missing_ok=True)
        command = ["setpriv", "--pdeathsig", "TERM", *self._command]
        self._process = subprocess.Popen(command, pass_fds=self._descriptors)
        self._began = time.monotonic()

    def end(self) -> None:
        """Ends stunnel if it runs."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def is_stalled(self) -> bool:
        """Returns whether the other host has not answered for a while on one of its connections."""
        return self._process is not None and is_stalled(self._process.pid)

    def look_after(self) -> None:
        """Starts stunnel again if it has ended by itself.

        Raises:
          RuntimeError: If it keeps ending right after its start.
        """
        if self._process is None or self._process.poll() is None:
            return
        is_quick = time.monotonic() - self._began < QUICK_SECS
        self._num_quick_ends = self._num_quick_ends + 1 if is_quick else 0
        if self._num_quick_ends > MAX_QUICK_ENDS:
            raise RuntimeError(f"stunnel keeps ending ({self._process.returncode}); see above")
        print(f"stunnel ended ({self._process.returncode}); starting it again", flush=True)
        self.start()


class WayToCore:
    """Connects stunnel to the newest core, at an address that answers.

    While none answers, as in a network failure, it keeps trying. Afterwards TCP would wait for as
    long as the failure has lasted before it sends again, so stalled connections are closed as soon
    as the core answers.
    """

    def __init__(self, folder: pathlib.Path, stunnel: Stunnel):
        """Knows no core yet; `folder` is stunnel's."""
        self._folder, self._stunnel = folder, stunnel
        self._link: Link | None = None
        self._probe: Probe | None = None  # while searching for an address
        self._num_stalled = 0  # checks in a row

    def follow(self, newest: Link | None) -> None:
        """Checks once; `newest` is None if the link cannot be read now."""
        if newest is not None and newest != self._link:
            self._stunnel.end()
            self._link, self._probe, self._num_stalled = newest, Probe(newest), 0
        self._look_for_stalls()
        if self._link is None or self._probe is None:
            return
        if address := self._probe.address():
            write_worker_end(self._folder, self._link, address)
            self._stunnel.start()
            print(f"{self._folder}/replay leads to {address} (core {self._link.incarnation})",
                  flush=True)  # fmt: skip
            self._probe, self._num_stalled = None, 0
        elif self._probe.is_over():
            self._probe = Probe(self._link)

    def _look_for_stalls(self) -> None:
        was_stalled = self._num_stalled >= STALLED_LOOKS
        self._num_stalled = self._num_stalled + 1 if self._stunnel.is_stalled() else 0
        if self._num_stalled == STALLED_LOOKS and self._probe is None and self._link is not None:
            print("The core does not answer; it reconnects when it does.",
                  flush=True)  # fmt: skip
            self._probe = Probe(self._link)
        elif was_stalled and self._num_stalled == 0:
            self._probe = None  # they continue by themselves


def relay(
    exp_dir: pathlib.Path,
    folder: pathlib.Path,
    /,
    listener: Annotated[int, AtLeast(0)] = 0,
    *,
    stop: StopFlag,
) -> int:
    """Keeps the link up until `stop` is set; returns EXIT_STOPPED.

    Args:
      exp_dir: Folder of the experiment.
      folder: Absolute folder for key, configuration and socket, which only this user can enter.
      listener: Descriptor of a listening socket, on the host of the core.
      stop: Ends it.
    """
    paths = ExperimentPaths(exp_dir)
    stunnel = Stunnel(folder, listener)
    way = WayToCore(folder, stunnel)
    if listener:  # it serves its own core, even if link.json already has a later one
        stunnel.start()
    while not stop:
        if not listener:
            way.follow(Link.read(paths))
        stunnel.look_after()
        time.sleep(PERIOD_SECS)
    stunnel.end()
    return EXIT_STOPPED


if __name__ == "__main__":
    run_program(relay, sys.argv)
