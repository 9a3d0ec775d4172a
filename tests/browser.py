"""A headless Chromium, driven over the WebDriver protocol; needs the packages of Debian only."""

import base64
import http.client
import json
import os
import re
import shutil
import subprocess

import pytest

PACKAGES = ("chromium", "chromium-driver")


def install_chromium():
    """Installs Chromium and its driver where they are missing; skips where that is impossible."""
    if shutil.which("chromium") and shutil.which("chromedriver"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("no chromium and chromedriver on PATH, and no root to install them with apt")
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES],
    ):
        done = subprocess.run(
            ["apt-get", *command], env=environ, capture_output=True, text=True, timeout=240
        )
        if done.returncode:
            pytest.skip(f"apt-get {command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")


class Browser:
    """One window. Every host name is unknown to it, so it reaches no network."""

    def __init__(self, width=1200, height=1600):
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        port = None
        for line in self._driver.stdout:  # ends, too, if the driver does
            if found := re.search(r"started successfully on port (\d+)", line):
                port = int(found[1])
                break
        assert port, "chromedriver did not start"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        arguments = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--window-size={width},{height}",
        ]  # fmt: skip
        options = {"args": arguments}
        self._path = ""
        try:
            session = self._call(
                "POST", "/session",
                {"capabilities": {"alwaysMatch": {
                    "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
                }}},
            )  # fmt: skip
            self._path = f"/session/{session['sessionId']}"
        except BaseException:
            self.close()
            raise

    def open(self, path):
        """Shows a file of this disk."""
        self._call("POST", "/url", {"url": path.resolve().as_uri()})

    def narrow(self, width):
        """Shows pages as a phone of `width` pixels does; no window is narrower than 500."""
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": screen}
        self._call("POST", "/goog/cdp/execute", command)

    def run(self, script, *arguments):
        """Returns what the body of a JavaScript function returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": arguments})

    def pointer(self, *actions):
        """Moves, presses and lifts the mouse: ("move", x, y), ("down",) and ("up",)."""
        kinds = {"move": "pointerMove", "down": "pointerDown", "up": "pointerUp"}
        steps = [
            {"type": kinds[kind], "button": 0}
            | ({"x": round(place[0]), "y": round(place[1]), "duration": 0} if place else {})
            for kind, *place in actions
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
        self._call("POST", "/actions", {"actions": [mouse | {"actions": steps}]})

    def errors(self):
        """Returns what the page has complained of since the last call."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries]

    def screenshot(self, path):
        """Writes a PNG of the window."""
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def close(self):
        """Ends Chromium and the driver."""
        try:
            if self._path:
                self._call("DELETE", "")
        finally:
            self._connection.close()
            self._driver.terminate()
            self._driver.wait(timeout=20)
            self._driver.stdout.close()

    def _call(self, method, path, body=None):
        text = None if method != "POST" else json.dumps(body or {})
        self._connection.request(
            method, self._path + path, text, {"Content-Type": "application/json"}
        )
        answer = json.loads(self._connection.getresponse().read())["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{answer['error']}: {answer['message']}")
        return answer
