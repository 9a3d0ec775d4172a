"""Reads the limits of this process's container or job from control groups, versions 1 and 2.

The limits of every group count, from this process's own up to the root. Files are read below
`root`, so that tests can simulate other machines.
"""

import math
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path("/")


def memory_limit(root: pathlib.Path = ROOT) -> float:
    """Returns the memory limit in bytes; infinity if there is none."""
    return min((limit for limit, _ in _memory(root)), default=math.inf)


def memory_left(root: pathlib.Path = ROOT) -> float:
    """Returns the bytes left below the limit; file cache that the kernel can drop is free."""
    return min((max(0.0, limit - used) for limit, used in _memory(root)), default=math.inf)


def cpu_quota(root: pathlib.Path = ROOT) -> float:
    """Returns the limit of CPU time, in CPUs; infinity if there is none."""
    quotas = [math.inf]
    for group in _groups(root, "cpu"):
        fields = (_text(group / "cpu.max") or "max").split()  # "max 100000", "150000 100000"
        quotas.append(_number(fields[0]) / _number(fields[1]) if len(fields) == 2 else math.inf)
        quota = _number(_text(group / "cpu.cfs_quota_us"))  # -1 for none
        period = _number(_text(group / "cpu.cfs_period_us"))
        if quota > 0 and math.isfinite(period):
            quotas.append(quota / period)
    return min(quota for quota in quotas if quota > 0)


def tasks_left(root: pathlib.Path = ROOT) -> float:
    """Returns the number of threads that may still start; infinity if there is no limit."""
    left = [
        _number(_text(group / "pids.max")) - _number(_text(group / "pids.current"), 0.0)
        for group in _groups(root, "pids")
    ]
    return max(0.0, min(left, default=math.inf))


def _memory(root: pathlib.Path) -> Iterator[tuple[float, float]]:
    """Yields limit and use of each group that has a limit."""
    for group in _groups(root, "memory"):
        # Beyond memory.high, the kernel slows processes down to a standstill.
        names = ("memory.max", "memory.high", "memory.limit_in_bytes")
        limit = min(_number(_text(group / name)) for name in names)
        used = _text(group / "memory.current") or _text(group / "memory.usage_in_bytes")
        kept = re.search(r"^(?:total_)?inactive_file (\d+)$", _facts(group), re.M)
        if math.isfinite(limit):
            yield limit, _number(used, 0.0) - (int(kept[1]) if kept else 0)


def _facts(group: pathlib.Path) -> str:
    """Returns memory.stat; for version 1, only the totals that include inner groups."""
    text = _text(group / "memory.stat")
    return re.sub(r"^inactive_file .*$", "", text, flags=re.M) if "total_" in text else text


def _groups(root: pathlib.Path, controller: str) -> Iterator[pathlib.Path]:
    """Yields the folders of this process's groups with a controller, innermost first."""
    own: dict[str, str] = {}  # path by controller; "" is version 2
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    for line in _text(root / "proc/self/mountinfo").splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        top, mount = map(_unescaped, fields.split(" ")[3:5])
        if kind == "cgroup2" and "" in own:
            path = own[""]
        elif kind == "cgroup" and controller in own and controller in options.split(","):
            path = own[controller]
        else:
            continue
        folder = root / mount.lstrip("/")
        # In some containers the group is not mounted; the outermost mounted group stands for it.
        inside = pathlib.PurePosixPath(path)
        parts = inside.relative_to(top).parts if inside.is_relative_to(top) else ()
        if ".." in parts:
            parts = ()
        for depth in range(len(parts), -1, -1):
            yield folder.joinpath(*parts[:depth])


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)  # a space is \040


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # no such limit, or no Linux
        return ""


def _number(text: str, default: float = math.inf) -> float:
    """Returns the number; `default` for "max", an empty text, and version 1's "no limit"."""
    try:
        number = int(text)
    except ValueError:
        return default
    return default if number >= 2**62 else float(number)
