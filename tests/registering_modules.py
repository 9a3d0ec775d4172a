"""Modules that register environments with gymnasium when they are imported."""

import contextlib
import sys

import gymnasium


@contextlib.contextmanager
def registering_module(folder, monkeypatch, name, text):
    """Writes the module into `folder`, the current one of the block; forgets both afterwards."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", gymnasium.registry.copy())
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(folder)
    (folder / f"{name}.py").write_text(text)
    yield folder
    sys.modules.pop(name, None)
    while str(folder) in sys.path:  # load_params adds it
        sys.path.remove(str(folder))
