"""Versions that the user has installed in place of locked ones."""

import pytest

from tfagents_system.core.installed import versions
from tfagents_system.launch.checks import own_versions as module
from tfagents_system.launch.checks.own_versions import constraint_on, own_versions


def test_what_differs_from_both_the_lock_and_the_last_installation_is_the_users():
    (here,) = versions("numpy")
    assert own_versions({"numpy": here, "not-installed": "1.0"}, {}) == {}
    assert own_versions({"numpy": "99.0"}, {"numpy": here}) == {}  # an older lock has brought it
    assert own_versions({"numpy": "99.0"}, {}) == {"numpy": here}
    assert own_versions({"numpy": "99.0"}, {"numpy": "98.0"}) == {"numpy": here}


@pytest.mark.parametrize(
    ("name", "version", "needed"),
    [
        ("numpy", "1.26.4", None),
        ("numpy", "2.0.1", "<2.0.0,>=1.23.5"),
        ("tensorflow", "2.15.0", "==2.15.1"),
        ("pygame", "99.0", None),
    ],
)
def test_only_what_breaks_learning_is_constrained(name, version, needed):
    assert constraint_on(name, version) == needed


def test_a_locked_package_that_does_not_work_with_a_kept_version_is_named(
    install, tmp_path, monkeypatch, capsys
):
    (tmp_path / "arm.lock").write_text("arm-simulator==2.0\nphysics==3.17.0\n")
    install("arm-simulator", "2.0", ["physics>=3.17"])
    install("physics", "3.3.7")
    monkeypatch.setattr(module, "LOCKS", tmp_path)
    monkeypatch.setattr(module, "MARKS", tmp_path)
    module.main(("arm.lock",), installed=True)
    assert capsys.readouterr().err == (
        "setup: physics 3.3.7, but arm-simulator needs >=3.17. "
        "For arm-simulator: .venv/bin/pip install physics==3.17.0\n"
    )
