"""An X server without a screen; needs the package xvfb of Debian only."""

import ctypes
import ctypes.util
import os
import shutil
import struct
import subprocess

import numpy as np
import pytest

PACKAGE = "xvfb"
_KEY_PRESS, _KEY_RELEASE, _CLIENT_MESSAGE = 2, 3, 33  # X.h


def install_xvfb():
    """Installs Xvfb where it is missing; skips where that is impossible."""
    if shutil.which("Xvfb"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("no Xvfb on PATH, and no root to install it with apt")
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", PACKAGE],
    ):
        done = subprocess.run(
            ["apt-get", *command], env=environ, capture_output=True, text=True, timeout=240
        )
        if done.returncode:
            pytest.skip(f"apt-get {command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")


class VirtualDisplay:
    """A screen of 800 x 700 pixels; `name` is what DISPLAY has to be."""

    def __init__(self, folder):
        reader, writer = os.pipe()
        self._server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writer), "-screen", "0", "800x700x24",
             "-fbdir", str(folder), "-nolisten", "tcp",
             "-noreset"],  # or it refuses clients for a moment when the last one has gone
            pass_fds=[writer], stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(writer)
        with open(reader) as file:
            self.name = f":{int(file.readline())}"
        self._file = folder / "Xvfb_screen0"

    def screen(self):
        """Returns what can be seen, [700, 800, 3] uint8."""
        content = self._file.read_bytes()  # an X window dump
        header = struct.unpack(">25I", content[:100])
        begin, width, height, num_colors = header[0], header[4], header[5], header[19]
        pixels = np.frombuffer(content, np.uint8, 4 * width * height, begin + 12 * num_colors)
        return pixels.reshape(height, width, 4)[:, :, 2::-1]  # blue, green, red, nothing

    def close_windows(self):
        """Does what the button of a window manager does; returns the number of windows.

        Only for windows that stay: one that goes at this moment ends this process (Xlib's default).
        """

        def event_for(x11, display, window):
            protocols, delete = (
                x11.XInternAtom(display, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW")
            )
            # XClientMessageEvent: type, serial, send_event, display, window, kind, format, data
            return struct.pack(
                "@iLiPLLi5l24l", _CLIENT_MESSAGE, 0, 1, display, window, protocols, 32,
                delete, *[0] * 28,
            )  # fmt: skip

        return self._send(event_for)

    def press(self, key, is_down=True):
        """Presses or releases a key, by its name in X, such as Left or a; as `close_windows`."""

        def event_for(x11, display, window):
            code = x11.XKeysymToKeycode(display, x11.XStringToKeysym(key.encode()))
            kind = _KEY_PRESS if is_down else _KEY_RELEASE
            # XKeyEvent: type, serial, send_event, display, window, root, subwindow, time, x, y,
            # x_root, y_root, state, keycode, same_screen
            event = struct.pack(
                "@iLiPLLLL4iIIi", kind, 0, 1, display, window, window, 0, 0, 0, 0, 0, 0, 0, code, 1
            )
            return event.ljust(192, b"\0")

        return self._send(event_for)

    def _send(self, event_for):
        """Sends an event to each window; returns their number."""
        x11 = ctypes.CDLL(ctypes.util.find_library("X11"))
        x11.XOpenDisplay.restype = pointer = ctypes.c_void_p
        number, window = ctypes.c_int, ctypes.c_ulong
        x11.XInternAtom.restype = x11.XDefaultRootWindow.restype = window
        x11.XInternAtom.argtypes = [pointer, ctypes.c_char_p, number]
        x11.XStringToKeysym.restype, x11.XStringToKeysym.argtypes = window, [ctypes.c_char_p]
        x11.XKeysymToKeycode.restype = ctypes.c_ubyte
        x11.XKeysymToKeycode.argtypes = [pointer, window]
        x11.XDefaultRootWindow.argtypes = [pointer]
        x11.XQueryTree.argtypes = [pointer, window] + [pointer] * 4
        x11.XSendEvent.argtypes = [pointer, window, number, ctypes.c_long, pointer]
        x11.XCloseDisplay.argtypes = [pointer]
        display = x11.XOpenDisplay(self.name.encode())
        assert display, f"nothing answers on {self.name}"
        root, parent, count = window(), window(), ctypes.c_uint()
        children = ctypes.POINTER(window)()
        x11.XQueryTree(
            display, x11.XDefaultRootWindow(display), ctypes.byref(root), ctypes.byref(parent),
            ctypes.byref(children), ctypes.byref(count),
        )  # fmt: skip
        for child in children[: count.value]:
            event = event_for(x11, display, child)
            x11.XSendEvent(display, child, 0, 0, ctypes.create_string_buffer(event))
        x11.XCloseDisplay(display)
        return count.value

    def close(self):
        self._server.terminate()
        self._server.wait(timeout=20)
