"""locks/constraints.txt holds what learning needs, and no more."""

import importlib.metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from shell.setup.sandbox import PROJECT

from tfagents_system.launch.checks.packages import NOT_HELD_TO, applies, needs_of, read_lock

LEARNING = ("tensorflow", "tf-agents", "dm-reverb", "tensorflow-probability", "tensorboard")
OF_THIS_PROJECT = {"gym", "setuptools", *LEARNING}


def constraints() -> dict[str, SpecifierSet]:
    lines = (PROJECT / "locks/constraints.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {one.name: one.specifier for one in requirements if applies(one)}


def test_every_upper_bound_that_learning_declares_is_a_constraint():
    missing = {}
    for need in needs_of(LEARNING):
        bounds = Requirement(need.text).specifier
        upper = {str(bound) for bound in bounds if bound.operator not in (">=", ">")}
        have = {str(bound) for bound in constraints().get(need.name, SpecifierSet())}
        if need.name not in OF_THIS_PROJECT and not upper <= have:
            missing[need.name] = upper - have
    assert missing == {}


def test_no_package_is_constrained_without_need():
    needed = {need.name for need in needs_of(LEARNING)} | OF_THIS_PROJECT
    assert set(constraints()) <= needed
    assert not set(constraints()) & {name for _, name in NOT_HELD_TO}
    assert not set(constraints()) & {"matplotlib", "rich", "pillow", "imageio", "pygame"}


def test_locked_versions_fit():
    for name, version in read_lock(PROJECT / "locks/base.lock"):
        assert constraints().get(name, SpecifierSet()).contains(version), name
    assert importlib.metadata.version("tf-agents") in constraints()["tf-agents"]
