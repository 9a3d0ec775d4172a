"""Records where to view an experiment's mirrors: an internet address, a database or files."""

import pathlib

from tfagents_system.core.display import printable, without_secrets
from tfagents_system.core.state.files import open_regular, write_text_atomically
from tfagents_system.core.state.paths import ExperimentPaths

FILE = "address"  # in the mirror's folder


def write_address(folder: pathlib.Path, address: str) -> None:
    """Records the address of a mirror that is connected, without passwords, in its folder."""
    write_text_atomically(folder / FILE, f"{without_secrets(address)}\n")


def mirror_addresses(paths: ExperimentPaths) -> list[str]:
    """Returns "<tracker>: <address>" of each mirror that has been connected, as clean text."""
    addresses = []
    for file in sorted(paths.mirrors.glob(f"*/{FILE}")):
        try:
            with open_regular(file) as opened:
                address = opened.read(2000).decode(errors="replace").strip()
        except OSError:  # vanished, or not ours to read
            continue
        addresses.append(printable(f"{file.parent.name}: {address}"))
    return addresses
