"""Reads the limits of this process's container or job from control groups, versions 1 and 2.

Those of every group from this process's own up to the root count. Files are read below `root`, so
that tests can have other machines.
"""

import math
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path("/")


def memory_limit(root: pathlib.Path = ROOT) -> float:
    """Returns the bytes of memory that all processes of a group may have; infinity for no limit."""
    return min((limit for limit, _ in _memory(root)), default=math.inf)


def memory_left(root: pathlib.Path = ROOT) -> float:
    """Returns the bytes that they can still have; files that the kernel can drop do not count."""
    return min((max(0.0, limit - used) for limit, used in _memory(root)), default=math.inf)


def cpu_quota(root: pathlib.Path = ROOT) -> float:
    """Returns how many CPUs' time they may use; infinity for no limit."""
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
    """Returns how many more threads they may start; infinity for no limit."""
    left = [
        _number(_text(group / "pids.max")) - _number(_text(group / "pids.current"), 0.0)
        for group in _groups(root, "pids")
    ]
    return max(0.0, min(left, default=math.inf))


def _memory(root: pathlib.Path) -> Iterator[tuple[float, float]]:
    """Yields limit and use of each group that has a limit."""
    for group in _groups(root, "memory"):
        # Beyond memory.high, processes are slowed down until they stand still.
        names = ("memory.max", "memory.high", "memory.limit_in_bytes")
        limit = min(_number(_text(group / name)) for name in names)
        used = _text(group / "memory.current") or _text(group / "memory.usage_in_bytes")
        kept = re.search(r"^(?:total_)?inactive_file (\d+)$", _facts(group), re.M)
        if math.isfinite(limit):
            yield limit, _number(used, 0.0) - (int(kept[1]) if kept else 0)


def _facts(group: pathlib.Path) -> str:
    """Returns memory.stat; of version 1 only what counts the groups inside, too."""
    text = _text(group / "memory.stat")
    return re.sub(r"^inactive_file .*$", "", text, flags=re.M) if "total_" in text else text


def _groups(root: pathlib.Path, controller: str) -> Iterator[pathlib.Path]:
    """Yields the folders of the groups of this process that have a controller, innermost first."""
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
        # Of a group beyond what is mounted here, as in some containers, the outermost is seen.
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
    """Returns the number; `default` for "max", none, and version 1's word for no limit."""
    try:
        number = int(text)
    except ValueError:
        return default
    return default if number >= 2**62 else float(number)
