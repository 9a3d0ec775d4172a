"""Scripts that draw, where there is no display."""

import os
import subprocess
import sys

import pytest

_UNSET = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "PYOPENGL_PLATFORM")


def run_undisplayed(script, **options):
    """Runs Python code in a process of its own, since MuJoCo is imported for one renderer.

    Skips the test if there is neither EGL nor OSMesa. `options` go to subprocess.run; returns what
    that does, with the texts of stdout and stderr.
    """
    environ = {name: value for name, value in os.environ.items() if name not in _UNSET}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environ, capture_output=True, text=True, timeout=120, **options,
    )  # fmt: skip
    if "cannot render" in done.stdout + done.stderr:
        pytest.skip("neither EGL nor OSMesa works here")
    return done
