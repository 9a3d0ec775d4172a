import pathlib
import re
import socket
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from replay_fakes import free_port

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.unity import messages as unity
from tfagents_system.environments.unity import side_channels
from tfagents_system.environments.unity.behaviors import Behavior
from tfagents_system.environments.unity.connection import Connection, UnityError
from tfagents_system.environments.unity.specs import action_spec, observation_spec

STAND_IN = str(pathlib.Path(__file__).with_name("stand_in.py"))


def connect(*arguments, timeout_secs=60.0, **kwargs):
    return Connection(STAND_IN, arguments=arguments, timeout_secs=timeout_secs, **kwargs)


def first_output(connection, **kwargs):
    return connection.exchange(unity.Input(command=unity.RESET, **kwargs))


def behaviors_of(output):
    return {
        each.name: Behavior.read(each, output.output.agents[each.name].value)
        for each in output.hello.behaviors
    }


@pytest.mark.parametrize("package", ["1.0.8", "1.4.0", "2.2.0", "3.0.0"])
def test_specs_of_all_kinds_of_agents(package):
    connection = connect("--task", "ball,grid,hybrid", "--agents", "2", "--package", package)
    try:
        output = first_output(connection)
        behaviors = behaviors_of(output)
        ball, grid, hybrid = (
            behaviors[name] for name in ("3DBall?team=0", "GridWorld?team=0", "Hybrid?team=0")
        )
        assert {k: v.shape for k, v in observation_spec(ball).items()} == {"vector": (8,)}
        assert (action_spec(ball).shape, action_spec(ball).minimum) == ((2,), -1)
        assert {k: v.shape for k, v in observation_spec(grid).items()} == {
            "camera": (40, 40, 3), "goal": (2,), "action_mask": (5,),
        }  # fmt: skip
        assert observation_spec(grid)["camera"].dtype == np.uint8
        assert action_spec(grid).maximum.tolist() == [4]
        assert {k: v.shape for k, v in action_spec(hybrid).items()} == {
            "continuous": (2,), "discrete": (2,),
        }  # fmt: skip
        agents = grid.agents(output.output.agents[grid.name].value)
        camera = agents.observations["camera"]
        # One cell of 8 x 8 pixels each for two targets and the agent.
        assert camera.shape == (2, 40, 40, 3) and (camera == 255).sum() == 2 * 3 * 64
        row, column = np.argwhere(camera[0, :, :, 2])[0] // 8
        stay, right, left, down, up = agents.observations["action_mask"][0]
        assert (stay, right, left, down, up) == (1, column < 4, column > 0, row < 4, row > 0)
    finally:
        connection.close()


def test_exchanges_actions_parameters_and_statistics():
    connection = connect("--agents", "3", seed=7)
    try:
        messages = side_channels.parameter_messages({"gravity": 2.5})
        messages += side_channels.engine_message(side_channels.EngineSettings())
        output = first_output(connection, channels=messages)
        (ball,) = behaviors_of(output).values()
        (statistic,) = side_channels.statistics(output.output.channels)
        assert statistic == side_channels.Statistic("Gravity", 2.5, 1)
        agents = ball.agents(output.output.agents[ball.name].value)
        assert agents.ids == sorted(agents.ids) and len(set(agents.ids)) == 3
        for _ in range(200):
            inputs = unity.Input(command=unity.STEP)
            inputs.actions[ball.name].value.extend(
                ball.message(np.ones(2, np.float32)) for _ in agents.ids
            )
            infos = connection.exchange(inputs).output.agents[ball.name].value
            if ended := [info for info in infos if info.is_done]:
                break
            assert {info.reward for info in infos} == {np.float32(0.1)}
        final = ball.agents(ended)
        assert final.rewards.tolist() == [-1.0] * len(ended) and not final.are_interrupted.any()
        assert set(final.ids) <= set(agents.ids)
        positions = final.observations["vector"][:, [2, 4]]
        assert (abs(positions).max(axis=1) > 3).all()  # has fallen: the true last observation
    finally:
        connection.close()


def test_build_ends_with_its_connection():
    connection = connect()
    process = psutil.Process(connection._process.pid)
    first_output(connection)
    connection.close()
    assert not process.is_running()
    with pytest.raises(UnityError, match="closed"):
        first_output(connection)


def test_build_that_does_not_end_is_killed(monkeypatch, capsys):
    monkeypatch.setattr("tfagents_system.environments.unity.connection._CLOSE_SECS", 0.5)
    connection = connect("--ignore-quit")
    process = psutil.Process(connection._process.pid)
    connection.close()
    assert not process.is_running()
    assert "has not ended within 0.5 s" in capsys.readouterr().err


def test_build_that_dies_is_named_at_once():
    connection = connect("--die-after", "4")
    try:
        first_output(connection)
        begin = time.monotonic()
        with pytest.raises(UnityError, match=r"stand_in.py ended with exit code 3\."):
            for _ in range(4):
                connection.exchange(unity.Input(command=unity.STEP))
        assert time.monotonic() - begin < 10  # long before the timeout
    finally:
        connection.close()


def test_build_that_hangs_is_named_after_the_timeout():
    connection = connect("--hang-after", "3", timeout_secs=60)
    try:
        first_output(connection)
        connection._timeout_secs = 1.0
        with pytest.raises(UnityError, match="has sent nothing for 1 s on port"):
            connection.exchange(unity.Input(command=unity.STEP))
    finally:
        connection.close()


def test_build_of_another_protocol_is_refused():
    with pytest.raises(ConfigError, match=r"speaks version 2\.0\.0 .* expected versions 1\.x"):
        connect("--api", "2.0.0")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path / "none", "is not a file; expected an executable"),
        (lambda path: path, "is a folder; expected an executable"),
    ],
)
def test_no_executable(tmp_path, make, message):
    with pytest.raises(ConfigError, match=message):
        Connection(str(make(tmp_path)))


def test_file_that_cannot_be_executed(tmp_path):
    (tmp_path / "build").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be executed: chmod \+x"):
        Connection(str(tmp_path / "build"))


def test_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        message = f"Port {port} of 127.0.0.1, .*in use"
        with pytest.raises(ConfigError, match=f"{message}.* another environment of this run.* one"):
            Connection(None, port=port)
        with pytest.raises(ConfigError, match=f"{message}.* Let port be None, for a free one"):
            connect(port=port)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mass": "heavy"}, "parameter 'mass', of .*, is 'heavy'; expected a number"),
        ({"mass": float("nan")}, "is nan; expected a number"),
        ({"mass": 1e39}, "is 1e\\+39; expected a number"),
        ({"größe": 1}, "parameter 'größe', of .* expected names of ASCII characters"),
        ({1: 2}, "parameter 1, of .* expected names"),
        ([1], "parameters is \\[1\\]; expected a dict"),
    ],
)
def test_parameters_that_unity_cannot_have_are_refused(parameters, message):
    with pytest.raises(ConfigError, match=message):
        side_channels.parameter_messages(parameters)


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"time_scale": "fast"}, "setting 'time_scale', of .*, is 'fast'; expected a number, .*32"),
        ({"time_scale": float("nan")}, "is nan; expected a number"),
        ({"time_scale": 1e39}, "is 1e\\+39; expected a number, which Unity holds as float32"),
        ({"width": None}, "setting 'width', .* is None; expected a whole number"),
        ({"width": "84"}, "is '84'; expected a whole number"),
        ({"width": 84.5}, "is 84.5; expected a whole number"),
        ({"width": 2**31}, f"is {2**31}; expected a whole number, which Unity holds as int32"),
        ({1: 2}, "engine has no setting 1. Allowed: capture_frame_rate"),
        ("fast", "engine is 'fast'; expected a dict"),
    ],
)
def test_engine_settings_that_unity_cannot_have_are_refused(engine, message):
    with pytest.raises(ConfigError, match=message):
        side_channels.engine_settings(engine)


def test_engine_settings_have_the_types_that_unity_reads():
    settings = side_channels.engine_settings({"width": 100.0, "time_scale": 1})
    assert settings == side_channels.EngineSettings(width=100, time_scale=1.0)
    assert (type(settings.width), type(settings.time_scale)) == (int, float)
    assert len(side_channels.engine_message(settings)) == 5 * 20 + 12 + 4 * 8


def test_editor_that_does_not_connect(capsys):
    with pytest.raises(UnityError, match="Press Play in the Editor"):
        Connection(None, port=0, timeout_secs=0.3)
    assert re.fullmatch(
        r"Waiting for the Editor on port \d+: press Play.\n", capsys.readouterr().out
    )


def test_editor_that_stops_or_begins_anew_is_named_at_once():
    port = free_port()
    for faults, message in (
        (["--stop-after", "4"], "the Editor closed the connection"),
        (["--die-after", "4"], "the Editor has begun anew"),
    ):
        command = [sys.executable, STAND_IN, "--mlagents-port", str(port)]
        editors = [subprocess.Popen([*command, *faults])]
        connection = Connection(None, port=port)
        try:
            first_output(connection)
            connection.exchange(unity.Input(command=unity.STEP))
            if "--die-after" in faults:
                editors.append(subprocess.Popen(command))
            with pytest.raises(UnityError, match=message):
                connection.exchange(unity.Input(command=unity.STEP))
        finally:
            connection.close()
            for editor in editors:
                editor.wait(60)


def test_listens_on_the_loopback_alone():
    connection = connect()
    try:
        addresses = {
            each.laddr.ip.removeprefix("::ffff:")  # an IPv4 address
            for each in psutil.Process().net_connections()
            if each.status == psutil.CONN_LISTEN and each.laddr.port == connection.port
        }
        assert addresses == {"127.0.0.1"}
    finally:
        connection.close()


def test_truncated_side_channels():
    data = side_channels.parameter_messages({"a": 1.0})
    assert len(list(side_channels.messages(data))) == 1
    for cut in (data[:17], data[:-1]):
        with pytest.raises(ValueError, match="Side channels"):
            list(side_channels.messages(cut))
