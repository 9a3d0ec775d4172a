"""Stands in for a core: a server in a private network that echoes, behind the real link.

Usage: echo_core.py EXP_DIR FOLDER INCARNATION ANSWER
Prints the server's port; publishes link.json in EXP_DIR; serves until it is killed.
"""

import contextlib
import pathlib
import socket
import subprocess
import sys
import threading

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.link.hosts import Link, listen
from tfagents_system.launch.link.relay import write_core_end
from tfagents_system.launch.local.private_network import enter

exp_dir, folder, incarnation, answer = sys.argv[1:]
listener = listen()
link = Link.of_this_host(int(incarnation), listener.getsockname()[1])
enter()
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
write_core_end(pathlib.Path(folder), link, port)
relay = [sys.executable, "-m", "tfagents_system.launch.link.relay", exp_dir, folder]
subprocess.Popen(
    ["setpriv", "--pdeathsig", "KILL", *relay, f"--listener={listener.fileno()}"],
    pass_fds=(listener.fileno(),),
)
link.publish(ExperimentPaths(pathlib.Path(exp_dir)))
print(port, flush=True)


def serve(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):  # of one that has gone already
        while connection.recv(100):
            connection.sendall(answer.encode())


while True:
    connection, _ = server.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
