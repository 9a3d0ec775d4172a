from collections.abc import Sequence

import pytest


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts metadata of another version in front of that of an installed package."""

    def install(name: str, version: str, needs: Sequence[str] = ()) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n{requires}")

    monkeypatch.syspath_prepend(tmp_path)
    return install
