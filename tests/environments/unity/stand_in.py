#!/usr/bin/env python3
"""Stands in for a Unity build: connects to the trainer as a build does, and simulates small tasks.

    stand_in.py --mlagents-port 5005 --task ball --agents 12 --package 3.0.0

Tasks, several joined by commas: ball (balance a ball on a plate, continuous), grid (an image, a
goal signal and masks), hybrid (continuous actions and branches), fixed (also branches of one
choice), yard (the ball, and a list of any length). It can also fail: see the arguments.
"""

import argparse
import io
import itertools
import os
import pathlib
import signal
import struct
import sys
import time

import grpc
import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))  # it is started by its path

from tfagents_system.environments.unity import messages as unity
from tfagents_system.environments.unity import side_channels

_PARAMETERS, _ENGINE, _STATISTICS = (
    side_channels._PARAMETERS,
    side_channels._ENGINE,
    side_channels._STATISTICS,
)


class Ball:
    """A plate with a ball: [tilt x, tilt z, x, height, z, speed x, 0, speed z]; 0.1 a decision."""

    behavior, num_continuous, branches, max_decisions = "3DBall?team=0", 2, (), 1000

    def __init__(self, rng, parameters):
        self.rng, self.parameters = rng, parameters
        self.reset()

    def reset(self):
        self.gravity = self.parameters.get("gravity", 9.81)
        self.tilt = self.rng.uniform(-0.17, 0.17, 2)
        self.position, self.speed = self.rng.uniform(-1.5, 1.5, 2), np.zeros(2)

    def step(self, continuous, discrete):
        for _ in range(5):  # physics steps for each decision
            self.tilt = np.clip(self.tilt + 0.007 * np.clip(continuous, -1, 1), -0.25, 0.25)
            self.speed = self.speed + 0.02 * self.gravity * np.sin(self.tilt) * (1, -1)
            self.position = self.position + 0.02 * self.speed
        has_fallen = bool((abs(self.position) > 3).any())
        return (-1.0 if has_fallen else 0.1), has_fallen

    def forbidden(self):
        return []

    def observe(self, info, is_channels_first):
        (x, z), (speed_x, speed_z) = self.position, self.speed
        add_vector(info, [*self.tilt, x, 4.0, z, speed_x, 0.0, speed_z], "vector")


class Hybrid(Ball):
    """The ball, with branches of 3 and 2: integer 1 of the first doubles the reward."""

    behavior, branches = "Hybrid?team=0", (3, 2)

    def step(self, continuous, discrete):
        reward, is_done = super().step(continuous, discrete)
        return reward * (2 if discrete[0] == 1 else 1), is_done

    def forbidden(self):
        return [False, False, bool(self.position[0] > 0), False, False]


class Fixed(Hybrid):
    """The hybrid, among branches that leave no choice, whose integers must be 0."""

    behavior, branches = "Fixed?team=0", (1, 3, 1, 2)

    def step(self, continuous, discrete):
        assert len(discrete) == 4 and discrete[0] == discrete[2] == 0
        return super().step(continuous, discrete[1::2])

    def forbidden(self):
        first, second, third, *others = super().forbidden()
        return [False, first, second, third, False, *others]


class Yard(Ball):
    """The ball, among blocks in a list of at most 4."""

    behavior = "Yard?team=0"

    def observe(self, info, is_channels_first):
        super().observe(info, is_channels_first)
        blocks = np.zeros((4, 3), np.float32)
        blocks[: self.rng.integers(5)] = (1, *self.position)
        floats = unity.Floats(data=blocks.ravel().tolist())
        info.observations.add(
            shape=blocks.shape, dimension_properties=[4, 1], floats=floats, name="blocks"
        )


class Grid:
    """5 x 5 cells with two targets; the goal signal says which is right. Walls are masked."""

    behavior, num_continuous, branches, max_decisions = "GridWorld?team=0", 0, (5,), 100
    moves = np.array([(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)])

    def __init__(self, rng, parameters):
        self.rng = rng
        self.reset()

    def reset(self):
        places = self.rng.permutation(25)[:3]
        self.place, *self.targets = (np.array(divmod(int(place), 5)) for place in places)
        self.right = int(self.rng.integers(2))

    def step(self, continuous, discrete):
        assert not self.forbidden()[discrete[0]], "a forbidden action was taken"
        self.place = self.place + self.moves[discrete[0]]
        for target, place in enumerate(self.targets):
            if (self.place == place).all():
                return (1.0 if target == self.right else -1.0), True
        return -0.01, False

    def forbidden(self):
        places = self.place + self.moves
        return [bool(beyond) for beyond in ((places < 0) | (places > 4)).any(axis=1)]

    def observe(self, info, is_channels_first):
        picture = np.zeros((5, 5, 3), np.uint8)
        for channel, place in enumerate([*self.targets, self.place]):
            picture[(*place, channel)] = 255
        picture = picture.repeat(8, axis=0).repeat(8, axis=1)
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "PNG")
        info.observations.add(
            shape=(3, 40, 40) if is_channels_first else (40, 40, 3),
            dimension_properties=(1, 2, 2) if is_channels_first else (2, 2, 1),
            compression=unity.PNG,
            compressed=file.getvalue(),
            channel_mapping=(0, 1, 2),
            name="camera",
        )
        add_vector(info, np.eye(2)[self.right], "goal", type=1)


def add_vector(info, values, name, **kwargs):
    floats = unity.Floats(data=np.asarray(values, np.float32).tolist())
    info.observations.add(
        shape=[len(values)], dimension_properties=[1], floats=floats, name=name, **kwargs
    )


class Agent:
    ids = itertools.count(1)

    def __init__(self, task):
        self.task, self.reward = task, 0.0
        self.begin()

    def begin(self):
        self.id, self.num_decisions, self.reward = next(self.ids), 0, 0.0
        self.task.reset()

    def act(self, action, ended, is_channels_first):
        self.reward, is_done = self.task.step(np.array(action.continuous), list(action.discrete))
        self.num_decisions += 1
        is_interrupted = not is_done and self.num_decisions >= self.task.max_decisions
        if is_done or is_interrupted:
            self.describe(ended.add(is_done=True, is_interrupted=is_interrupted), is_channels_first)
            self.begin()

    def describe(self, info, is_channels_first):
        info.id, info.reward = self.id, self.reward
        if not info.is_done:
            info.forbidden.extend(self.task.forbidden())
        self.task.observe(info, is_channels_first)


class Build:
    """Answers the trainer's inputs."""

    tasks = {"ball": Ball, "grid": Grid, "hybrid": Hybrid, "fixed": Fixed, "yard": Yard}

    def __init__(self, arguments):
        self.arguments = arguments
        self.is_channels_first = int(arguments.package.split(".")[0]) >= 3
        self.parameters, self.engine = {}, []
        self.agents, self.num_exchanges = {}, 0
        self.asking, self.turn, self.described = {}, 0, set()
        self.began = time.monotonic()
        channel = grpc.insecure_channel(
            f"127.0.0.1:{arguments.mlagents_port}", options=[("grpc.enable_http_proxy", 0)]
        )
        self.call = channel.unary_unary(
            f"/{unity.SERVICE}/{unity.METHOD}",
            unity.Message.SerializeToString,
            unity.Message.FromString,
        )

    def run(self):
        hello = unity.Hello(
            name="stand-in",
            api_version=self.arguments.api,
            package_version=self.arguments.package,
            capabilities=unity.Capabilities(base=True, hybrid_actions=True),
        )
        settings = self.exchange(unity.FromUnity(hello=hello)).settings
        # As packages 1.0.8 and later of 1.0.x, which then send nothing.
        version = tuple(map(int, settings.package_version.split(".")))
        if self.arguments.package.startswith("1.0.") and version > (0, 25, 999):
            os._exit(4)
        rng = np.random.default_rng(settings.seed)
        for name in self.arguments.task.split(","):
            number = self.arguments.agents * max(settings.num_areas, 1)
            task = self.tasks[name]
            self.agents[task.behavior] = [Agent(task(rng, self.parameters)) for _ in range(number)]
        answer = None
        while True:
            inputs = self.exchange(answer).input
            if inputs.command == unity.QUIT:
                return
            self.hear(inputs.channels)
            answer = self.simulate(inputs)

    def simulate(self, inputs):
        answer = unity.FromUnity()
        self.turn = 0 if inputs.command == unity.RESET else self.turn + 1
        numbers = itertools.count()
        for behavior, agents in self.agents.items():
            infos = answer.output.agents[behavior].value
            if inputs.command == unity.RESET:
                for agent in agents:
                    agent.begin()
            asking = self.asking.get(behavior, ())
            for agent, action in zip(asking, inputs.actions[behavior].value, strict=False):
                agent.act(action, infos, self.is_channels_first)
            self.asking[behavior] = [a for a in agents if self.has_turn(next(numbers))]
            for agent in self.asking[behavior]:
                agent.describe(infos.add(), self.is_channels_first)
            if self.asking[behavior] and behavior not in self.described:
                self.describe_behavior(behavior, agents[0].task, answer.hello)
        answer.output.channels = self.statistics()
        return answer

    def has_turn(self, number):
        return (number - self.turn) % self.arguments.turns == 0

    def describe_behavior(self, behavior, task, hello):
        self.described.add(behavior)
        spec = hello.behaviors.add(name=behavior, is_training=True).action_spec
        spec.num_continuous, spec.num_branches = task.num_continuous, len(task.branches)
        spec.branch_sizes.extend(task.branches)

    def exchange(self, from_unity):
        self.fail_if_asked()
        is_stopped = self.num_exchanges > self.arguments.stop_after
        status = unity.FAILED if is_stopped else unity.OK
        message = unity.Message(header=unity.Header(status=status), from_unity=from_unity)
        answer = self.call(message, wait_for_ready=True)
        if is_stopped or answer.header.status != unity.OK:
            sys.exit(0)
        return answer.to_unity

    def fail_if_asked(self):
        self.num_exchanges += 1
        secs = time.monotonic() - self.began
        if self.num_exchanges > self.arguments.die_after or secs > self.arguments.die_after_secs:
            os._exit(3)
        if self.num_exchanges > self.arguments.hang_after:
            time.sleep(3600)

    def hear(self, data):
        for channel, contents in side_channels.messages(data):
            if channel == _PARAMETERS:
                (length,) = struct.unpack_from("<i", contents)
                name = contents[4 : 4 + length].decode()
                kind, self.parameters[name] = struct.unpack_from("<if", contents, 4 + length)
                assert kind == 0
            elif channel == _ENGINE:
                self.engine.append(contents)

    def statistics(self):
        name = b"Gravity"
        value = self.parameters.get("gravity", 9.81)
        contents = struct.pack("<i", len(name)) + name + struct.pack("<fi", value, 1)
        return _STATISTICS + struct.pack("<i", len(contents)) + contents


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--mlagents-port", type=int, default=5004)
    parser.add_argument("--task", default="ball")
    parser.add_argument("--agents", type=int, default=12)
    parser.add_argument(
        "--turns", type=int, default=1, help="agent k asks in each such step from k"
    )
    parser.add_argument("--package", default="3.0.0", help="version of com.unity.ml-agents")
    parser.add_argument("--api", default=unity.API_VERSION)
    parser.add_argument("--die-after", type=float, default=float("inf"), help="exchanges")
    parser.add_argument("--die-after-secs", type=float, default=float("inf"))
    parser.add_argument("--hang-after", type=float, default=float("inf"), help="exchanges")
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="exchanges, says so")
    parser.add_argument("-nographics", action="store_true", help="as builds have it; no effect")
    parser.add_argument("-batchmode", action="store_true", help="likewise")
    parser.add_argument("--ignore-quit", action="store_true", help="has to be killed")
    arguments, _ = parser.parse_known_args()  # others are of Unity
    try:
        Build(arguments).run()
    except (grpc.RpcError, SystemExit):
        pass  # the trainer has gone
    if arguments.ignore_quit:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)


if __name__ == "__main__":
    main()
