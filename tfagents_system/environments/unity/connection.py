"""The connection to a Unity build, or to the Editor."""

import concurrent.futures
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.unity import messages as unity

EDITOR_PORT = 5004
_EDITOR = "the Editor"
_ONE_EDITOR = (
    "The Editor can serve one environment, but a run makes several, for collection, evaluation and "
    "their specs: with specs=..., one connects only when it is used. Train with one worker and "
    "eval_period_itrs = 0, as docs/from_ml_agents.md says, or with a build."
)
_POLL_SECS = 0.2
_CLOSE_SECS = 5.0  # for Unity to end by itself


class UnityError(RuntimeError):
    """Unity ended, fell silent or broke the protocol."""


class Connection:
    """Exchanges messages with Unity, which is the client: each of its requests is our next input.

        connection = Connection("builds/3DBall.x86_64")
        output = connection.exchange(unity.Input(command=unity.RESET))
        connection.close()

    Listens on 127.0.0.1 only. Not thread-safe.
    """

    def __init__(
        self,
        build: str | None,
        *,
        seed: int = 0,
        num_areas: int = 1,
        port: int | None = None,
        arguments: Sequence[str] = (),
        timeout_secs: float = 60.0,
    ):
        """Starts the build and waits until it has connected, for `timeout_secs` at most.

        Args:
          build: Path of the executable; None waits for the Editor.
          seed: Of the simulator's random numbers, an int32.
          num_areas: Copies of the scene in one build.
          port: On which to listen; None is a free port, or the Editor's.
          arguments: Of the build.
          timeout_secs: Longest time between two messages of Unity.

        Raises:
          ConfigError: If there is no such executable, the port is taken, or the build speaks
            another protocol.
          UnityError: If it ends or does not connect.
        """
        self._timeout_secs = timeout_secs
        self._name = _EDITOR if build is None else pathlib.Path(build).name
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._requests: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._answers: queue.Queue[Any] = queue.Queue(maxsize=1)
        executable = None if build is None else _executable(build)
        if port is None:
            port = EDITOR_PORT if build is None else 0  # 0 is a free one
        self._server, self.port = self._listen(port)
        try:
            if executable:
                # Its own process group, so that all of it can be ended.
                self._process = subprocess.Popen(
                    [executable, "--mlagents-port", str(self.port), *arguments],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            else:
                print(f"Waiting for the Editor on port {self.port}: press Play.", flush=True)
            hello = self._await().from_unity.hello
            self.package_version = hello.package_version
            _check_version(self._name, hello)
            settings = unity.Settings(
                seed=seed,
                api_version=unity.API_VERSION,
                package_version=_trainer_version(hello.package_version),
                capabilities=unity.Capabilities(
                    base=True, concatenated_png=True, channel_mapping=True, hybrid_actions=True,
                    variable_length=True, agent_groups=True,
                ),
                num_areas=num_areas,
            )  # fmt: skip
            self._answer(unity.Message(to_unity=unity.ToUnity(settings=settings)))
            self._await()  # the request for the first input
        except BaseException:
            self.close()
            raise

    def exchange(self, inputs: Any) -> Any:
        """Sends an Input, and returns Unity's answer, a FromUnity.

        Raises:
          UnityError: If Unity ends, closes the connection, begins anew or is silent for
            `timeout_secs`.
        """
        if self._is_closed:
            raise UnityError(f"The connection to {self._name} is closed.")
        self._answer(unity.Message(to_unity=unity.ToUnity(input=inputs)))
        output = self._await().from_unity
        if output.hello.api_version:  # only the first message of all has it
            raise UnityError(f"{self._name} has begun anew: it had ended without a word.")
        return output

    def close(self) -> None:
        """Asks Unity to end, and ends what is left of the build after five seconds."""
        if self._is_closed:
            return
        self._is_closed = True  # so that the thread of an open request answers with a failure
        self._server.stop(grace=1.0).wait(1.0 + _POLL_SECS)
        if self._process is not None:
            _end_group(self._process)

    def _listen(self, port: int) -> tuple[Any, int]:
        handler = grpc.unary_unary_rpc_method_handler(
            self._serve, unity.Message.FromString, unity.Message.SerializeToString
        )
        server = grpc.server(
            _DaemonThreads(),
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)],
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(unity.SERVICE, {unity.METHOD: handler}),)
        )
        try:
            bound = server.add_insecure_port(f"127.0.0.1:{port}")
        except RuntimeError as error:
            advice = _ONE_EDITOR if self._name == _EDITOR else "Let port be None, for a free one."
            raise ConfigError(
                f"Port {port} of 127.0.0.1, on which {self._name} is awaited, is in use by another "
                f"program, or by another environment of this run. {advice}"
            ) from error
        server.start()
        return server, bound

    def _serve(self, request: Any, context: Any) -> Any:
        """Hands over a request and waits for its answer, in a thread of the server."""
        self._requests.put(request)
        while not self._is_closed:
            try:
                return self._answers.get(timeout=_POLL_SECS)
            except queue.Empty:
                continue
        return unity.Message(header=unity.Header(status=unity.FAILED))

    def _answer(self, message: Any) -> None:
        message.header.status = unity.OK
        self._answers.put(message)

    def _await(self) -> Any:
        deadline = time.monotonic() + self._timeout_secs
        while True:
            try:
                request = self._requests.get(timeout=_POLL_SECS)
            except queue.Empty:
                if self._process is not None and self._process.poll() is not None:
                    raise UnityError(
                        f"{self._name} ended {_how(self._process.returncode)}."
                    ) from None
                if time.monotonic() > deadline:
                    raise UnityError(
                        f"{self._name} has sent nothing for {self._timeout_secs:g} s on port "
                        f"{self.port}. {self._advice()}"
                    ) from None
                continue
            if request.header.status != unity.OK:
                said = f": {request.header.message}" if request.header.message else ""
                raise UnityError(f"{self._name} closed the connection{said}.")
            return request

    def _advice(self) -> str:
        if self._process is None:
            return "Press Play in the Editor, in a scene with agents of behavior type Default."
        return (
            "It hangs, has no agents of behavior type Default, or needs longer: raise timeout_secs."
        )


class _DaemonThreads(concurrent.futures.Executor):
    """Runs each call in a thread of its own that does not keep the process alive."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Starts the call; returns its future."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def run() -> None:
            try:
                future.set_result(call(*args, **kwargs))
            except BaseException as error:  # an exception of the thread becomes the future's
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


def _executable(build: str) -> str:
    """Returns the path of a build's executable; for a macOS .app, the one inside."""
    path = pathlib.Path(build).absolute()
    if path.suffix == ".app":
        path = next((path / "Contents" / "MacOS").glob("*"), path)
    if not path.is_file():
        candidates = sorted(path.parent.glob(f"{path.name}*.x86_64"))
        hint = f" Did you mean {candidates[0]}?" if candidates else ""
        what = "a folder" if path.is_dir() else "not a file"
        raise ConfigError(f"The Unity build {build} is {what}; expected an executable.{hint}")
    if not os.access(path, os.X_OK):
        raise ConfigError(f"The Unity build {build} cannot be executed: chmod +x {path}")
    return str(path)


def _trainer_version(package: str) -> str:
    """Returns the version of ML-Agents' trainer that suits a package.

    Packages 1.0.8 and later of 1.0.x throw at trainers above 0.25, and then send nothing. All 1.x
    support 0.20.0; later packages refuse no trainer, but warn of trainers older than themselves.
    """
    return "0.20.0" if package.startswith("1.") else package


def _check_version(name: str, hello: Any) -> None:
    version, ours = hello.api_version, unity.API_VERSION
    if version.split(".")[0] != ours.split(".")[0]:
        raise ConfigError(
            f"{name} speaks version {version or 'none'} of ML-Agents' protocol, of the package "
            f"{hello.package_version or 'unknown'}; expected versions 1.x, of "
            "com.unity.ml-agents 1.0 and later. Build the scene with a later package."
        )


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Waits until the build has ended by itself, then kills what is left of its group."""
    try:
        process.wait(_CLOSE_SECS)
    except subprocess.TimeoutExpired:
        print(f"Note: Unity has not ended within {_CLOSE_SECS:g} s; it is killed.", file=sys.stderr)
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"
