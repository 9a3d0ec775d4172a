"""Closes an environment and its simulators in bounded time, even if it hangs."""

import contextlib
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import sys
import threading
from collections.abc import Iterator, Set
from typing import Any

from tf_agents.environments import py_environment

from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.processes import Process, descendants, end
from tfagents_system.environments.guest_environment import GuestEnvironment
from tfagents_system.environments.layers import py_layers

CLOSE_SECS = 5.0  # time limit of `close`, before it is abandoned


def close_environment(
    environment: py_environment.PyEnvironment, timeout_secs: float = CLOSE_SECS
) -> None:
    """Closes an environment, then ends processes that its constructor started and `close` left.

    If `close` raises or takes longer than `timeout_secs`, this is only logged.
    """
    call_close(environment, timeout_secs)
    end_started(started_by(environment))


@contextlib.contextmanager
def closed_at_end(
    environment: py_environment.PyEnvironment,
) -> Iterator[py_environment.PyEnvironment]:
    """Yields the environment, and closes it after the block."""
    try:
        yield environment
    finally:
        close_environment(environment)


def call_close(environment: Any, timeout_secs: float = CLOSE_SECS) -> None:
    """Calls `close` in a thread, which is abandoned after `timeout_secs`."""
    raised: list[BaseException] = []

    def close() -> None:
        try:
            environment.close()
        except BaseException as error:  # any exception of this thread is only logged
            raised.append(error)

    thread = threading.Thread(target=close, daemon=True)
    with GUEST.visit(f"{_name(environment)}.close"):  # not possible in the thread
        thread.start()
        thread.join(timeout_secs)
    if thread.is_alive():
        _note(f"{_name(environment)}.close has not returned within {timeout_secs:g} s; it is "
              "abandoned.")  # fmt: skip
    elif raised:
        _note(f"{raised[0]}. The environment is not used any more.")


def started_since(before: Set[Process]) -> frozenset[Process]:
    """Returns the living processes that user code has started since those `before`.

    Without multiprocessing's fork server and resource tracker: whoever needs them first starts
    them for the whole process, and the workers of all environments end with the fork server.
    """
    server: Any = multiprocessing.forkserver._forkserver
    tracker: Any = multiprocessing.resource_tracker._resource_tracker
    helpers = (server._forkserver_pid, tracker._pid)
    return frozenset(each for each in descendants() - before if each.pid not in helpers)


def started_by(environment: Any) -> frozenset[Process]:
    """Returns the processes that the environment's constructor has started."""
    guests = [layer for layer in py_layers(environment) if isinstance(layer, GuestEnvironment)]
    return frozenset(process for guest in guests for process in guest.started)


def end_started(started: frozenset[Process]) -> None:
    """Ends the living processes of `started`, and their descendants."""
    if started:
        end(lambda: _with_descendants(started & descendants()))


def _with_descendants(processes: frozenset[Process]) -> set[Process]:
    return set(processes).union(*(descendants(process.pid) for process in processes))


def _name(environment: Any) -> str:
    *_, innermost = py_layers(environment)
    return type(innermost).__name__


def _note(text: str) -> None:
    print(f"Note: {text}", file=sys.stderr, flush=True)
