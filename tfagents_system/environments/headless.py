"""Chooses how MuJoCo and pygame draw without a display."""

import ctypes
import ctypes.util
import os
import sys

from tfagents_system.core.errors import ConfigError

VARIABLE = "MUJOCO_GL"
NO_RENDERER = "disabled"
_EGL_PLATFORM_DEVICE = 0x313F
_MAX_DEVICES = 16


def has_display() -> bool:
    """Returns whether a variable names a display, which only Linux needs for windows."""
    return any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def choose_renderer() -> None:
    """Sets MUJOCO_GL if there is no display and the user has not set it; Linux only.

    The choice is EGL (a GPU, or Mesa's software renderer), else OSMesa, else "disabled", with which
    everything except rendering works. dm_control reads the variable when it is imported, gymnasium
    when it draws its first frame.
    """
    if VARIABLE in os.environ or has_display() or not sys.platform.startswith("linux"):
        return
    if _egl_works():
        os.environ[VARIABLE] = "egl"
    else:
        os.environ[VARIABLE] = "osmesa" if ctypes.util.find_library("OSMesa") else NO_RENDERER


def draw_unseen() -> None:
    """Keeps pygame from opening windows and sound devices, unless the user has chosen drivers.

    gym's environments would open an empty window to draw the frames of a film. Also keeps pygame
    from handling signals.
    """
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")


def has_pygame_display() -> bool:
    """Returns whether pygame draws already, by a driver that it keeps."""
    pygame = sys.modules.get("pygame")
    return pygame is not None and bool(pygame.display.get_init())


def check_can_render(owner: str) -> None:
    """Raises ConfigError if no renderer was found; `owner` is the environment's name."""
    if os.environ.get(VARIABLE) == NO_RENDERER:
        raise ConfigError(
            f"{owner} cannot render: {VARIABLE} is {NO_RENDERER!r}. Without a display MuJoCo needs "
            "EGL (Debian: apt-get install libegl1 libegl-mesa0) or OSMesa (libosmesa6)."
        )


def _egl_works() -> bool:
    """Returns whether EGL can draw without a display; dm_control fails if it only exists."""
    name = ctypes.util.find_library("EGL")
    if name is None:
        return False
    try:
        egl = ctypes.CDLL(name)
    except OSError:
        return False
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    query = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    get_display = egl.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not query or not get_display:
        return False
    pointer, count = ctypes.c_void_p, ctypes.c_int(0)
    devices = (pointer * _MAX_DEVICES)()
    query_type = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, pointer, pointer)
    display_type = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)
    if not query_type(query)(_MAX_DEVICES, devices, ctypes.byref(count)):
        return False
    for device in devices[: count.value]:
        display = display_type(get_display)(_EGL_PLATFORM_DEVICE, device, None)
        # Not terminated, because the drawing library initializes the same display again.
        if display and egl.eglInitialize(pointer(display), None, None):
            return True
    return False
