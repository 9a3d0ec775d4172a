"""Runs the core's host for a measurement: replay server, relay and a stand-in for the learner.

Example: python -m benchmarks.ours.core_host logs/hosts /tmp/core
The replay server has the tables and limits of a run's. The stand-in samples as much as the limits
allow and publishes the untrained policy twice a second, like a learner; it does not train, so that
the cores are free for the measurement. Prints the port of the replay server once it serves, and
runs until it is killed.
"""

import contextlib
import pathlib
import subprocess
import sys

from benchmarks import program
from benchmarks.ours.collection import Publisher
from benchmarks.ours.programs import next_report, program_specs, running
from tfagents_system.core.process.ports import free_port
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.link.hosts import Link, listen
from tfagents_system.launch.link.relay import write_core_end
from tfagents_system.learning.run_data import sampled_data


def start_relay(paths: ExperimentPaths, folder: pathlib.Path, port: int) -> subprocess.Popen:
    """Starts this host's end of the link to the replay server, and publishes the link."""
    listener = listen()
    link = Link.of_this_host(1, listener.getsockname()[1])
    write_core_end(folder, link, port)
    relay = [
        sys.executable,
        "-m",
        "tfagents_system.launch.link.relay",
        str(paths.root),
        str(folder),
    ]
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", *relay, f"--listener={listener.fileno()}"],
        pass_fds=(listener.fileno(),), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    link.publish(paths)
    return process


def main(exp_dir: pathlib.Path, folder: pathlib.Path, /, linked: bool = True) -> None:
    """Serves, samples and publishes.

    Args:
      exp_dir: Folder of the experiment.
      folder: For the relay; only this user can enter it.
      linked: Whether to use the link; otherwise, other hosts reach the server unencrypted.
    """
    paths = ExperimentPaths(exp_dir)
    port = free_port()
    address = f"localhost:{port}"
    publisher = Publisher(paths.root, address)
    server = program_specs(paths, address)["replay"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(server.argv, server.env, paths.stdout("replay")))
        next_report(paths, "replay")
        if linked:
            stack.callback(start_relay(paths, folder, port).terminate)
        print(port, flush=True)
        (replay,) = sampled_data(load_run(str(exp_dir)), address, publisher.reader).sources
        while True:
            publisher.tick()
            for _ in replay.make_iterator():  # until none has come for two seconds
                publisher.tick()


if __name__ == "__main__":
    program.run(main)
