"""The driver of a run on Ray, with actors that do nothing; tests/ray_cluster has a real one."""

import types

from tfagents_system.core.settings.variables import Settings
from tfagents_system.launch.clusters import ray_driver
from tfagents_system.launch.clusters.ray_driver import Driver, Placed
from tfagents_system.launch.clusters.ray_plan import PlannedActor

SETTINGS = {"SAC_EXP_NAME": "e", "SAC_PARAMS": "p.py", "SAC_CONFIG": "c.json"}


class Actor:
    """Notes that it was stopped."""

    def __init__(self):
        self.is_stopped = False
        self.stop = types.SimpleNamespace(remote=self._stop)

    def _stop(self):
        self.is_stopped = True


def test_a_core_whose_workers_have_all_given_up_is_stopped_and_awaited(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    awaited = []
    monkeypatch.setattr(ray_driver.ray, "wait", lambda answers, **_: awaited.extend(answers))
    planned = [PlannedActor("core", (), 1), PlannedActor("rollout_0", (), 1)]
    driver = Driver(Settings.from_environ(SETTINGS), planned)
    actors = {each.roles: Actor() for each in planned}

    def give_up(environ):
        driver._placed[1].code = 78

    monkeypatch.setattr(driver, "_reserve", lambda: True)
    monkeypatch.setattr(driver, "_look", give_up)
    monkeypatch.setattr(
        driver, "_place", lambda index, each: Placed(each, actors[each.roles], each.roles, "n")
    )
    assert driver.run({}) == 78
    assert actors["core"].is_stopped and awaited == ["core"]
