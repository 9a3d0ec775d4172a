"""Numbers a program's starts, so that an older process that is still alive ends itself.

A cluster may consider a living host dead and start its programs elsewhere. Each start of the core
(replay server and learner) claims a number in `incarnations/`; each start of a worker claims one in
`checkpoints/streams/`, which also numbers the items that it sends. The highest number of a program
is valid; a process with a lower number changes nothing more and ends with EXIT_SUPERSEDED.
"""

import collections
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import platform
import re
import time
from collections.abc import Mapping
from typing import Any

from tfagents_system.core.errors import SupersededError
from tfagents_system.core.state.disk import is_disk_full
from tfagents_system.core.state.files import make_folder_durably, read_json, sync, temporary_name
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.patience import is_transient

CORE = "core"  # replay server and learner claim together


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of a cluster, and how often the cluster had started it before."""

    id: str
    restart_count: int = 0

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Job | None":
        """Returns the job of Ray or SLURM that the variables name; None outside a job."""
        for cluster in ("RAY", "SLURM"):
            if job_id := environ.get(f"{cluster}_JOB_ID"):
                restart_count = environ.get(f"{cluster}_RESTART_COUNT", "")  # may not be set
                return cls(job_id, int(restart_count) if restart_count.isdigit() else 0)
        return None

    def replaces(self, other: "Job | None") -> bool:
        """Returns whether the cluster has started this job in place of `other`."""
        return (
            other is not None and self.id == other.id and self.restart_count > other.restart_count
        )


class Claims:
    """The numbers claimed in one folder: one file each, which never changes or disappears."""

    def __init__(self, folder: pathlib.Path):
        """Reads nothing yet; `folder` may be missing."""
        self._folder = folder
        self._programs: dict[int, str] = {}  # by the numbers read so far

    def claim(self, program: str, job: Job | None = None) -> int:
        """Claims a number for `program`, above all others in the folder and unique.

        The file is linked under its name, so that it is complete when it appears and a second
        process fails, even on NFS. It is synced to the disk when this returns: after a power
        failure, the number of items already sent must not be claimed again. On a full disk it is a
        symbolic link to the program's name, which takes no block.
        """
        make_folder_durably(self._folder)
        owner = {
            "program": program,
            "host": platform.node(),
            "pid": os.getpid(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "job": None if job is None else dataclasses.asdict(job),
        }
        temporary = temporary_name(self._folder / program)
        try:
            try:
                temporary.write_text(json.dumps(owner) + "\n")
                sync(temporary)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                temporary.unlink(missing_ok=True)
                temporary.symlink_to(program)
            number = max(self._numbers(), default=0) + 1
            while not _does_link(temporary, self._path(number)):
                number += 1
            sync(self._folder)
            return number
        finally:
            temporary.unlink(missing_ok=True)

    def newest(self, program: str, above: int = 0) -> int:
        """Returns the highest number of `program`; `above` if it has no higher one.

        Lists the folder, because on NFS that asks the server, whereas a file that was missing a
        moment ago may be cached as missing for a minute.
        """
        for number in sorted(self._numbers(), reverse=True):
            if number <= above:
                break
            if self._program_of(number) == program:
                return number
        return above

    def is_first(self, program: str, number: int) -> bool:
        """Returns whether all claims before `number` are readable and of other programs."""
        earlier = [known for known in self._numbers() if known < number]
        return not {program, None} & set(map(self._program_of, earlier))

    def owner(self, number: int) -> dict[str, Any]:
        """Returns the owner of `number`: program, and, if known, host, pid, since, job."""
        path = self._path(number)
        return {"program": os.readlink(path)} if path.is_symlink() else read_json(path)

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        # Others may put files there; 20261127 is not a claim.
        return [int(name) for name in names if re.fullmatch("[0-9]{6}|[1-9][0-9]{6}", name)]

    def _program_of(self, number: int) -> str | None:
        if number not in self._programs:
            with contextlib.suppress(
                OSError, ValueError, LookupError, TypeError
            ):  # the next check tries again
                self._programs[number] = self.owner(number)["program"]
        return self._programs.get(number)

    def _path(self, number: int) -> pathlib.Path:
        return self._folder / f"{number:06d}"


class Fence:
    """Prevents a superseded program from changing anything.

    fence.look()    # now and then in the program's loop
    fence.check()   # right before each rename
    """

    def __init__(self, claims: Claims, program: str, number: int):
        """`number` is the claim of this start of `program`; 0 if nothing was claimed."""
        self.number = number
        self._claims = claims
        self._program = program

    @classmethod
    def of_core(cls, paths: ExperimentPaths, incarnation: int) -> "Fence":
        """Returns the fence of a replay server or learner."""
        return cls(Claims(paths.incarnations), CORE, incarnation)

    @classmethod
    def of_worker(cls, paths: ExperimentPaths, program: str) -> "Fence":
        """Claims a stream for this start of a worker or evaluator, and returns its fence."""
        claims = Claims(paths.streams)
        return cls(claims, program, claims.claim(program, Job.from_environ(os.environ)))

    @functools.cached_property
    def is_first(self) -> bool:
        """Whether this is the first start of the program in the experiment."""
        return self._claims.is_first(self._program, self.number)

    @property
    def is_newest(self) -> bool:
        """Whether no later start has claimed; costs the listing of a small folder."""
        return self._claims.newest(self._program, above=self.number) == self.number

    def look(self) -> None:
        """Like `check`, but passes while the disk does not answer, as nothing changes then."""
        try:
            self.check()
        except OSError as error:
            if not is_transient(error):
                raise

    def check(self) -> None:
        """Raises SupersededError if a later start has claimed; OSError if that is unknown."""
        newest = self._claims.newest(self._program, above=self.number)
        if newest != self.number:
            owner = collections.defaultdict(lambda: "?", self._claims.owner(newest))
            raise SupersededError(
                f"superseded: {owner['host']} has started {self._program} anew at "
                f"{owner['since']} (number {newest}, process {owner['pid']}). This start (number "
                f"{self.number}) changes nothing any more and ends."
            )


def _does_link(source: pathlib.Path, target: pathlib.Path) -> bool:
    """Links `source` to `target`; returns False if `target` is another file."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return os.path.samestat(
            target.lstat(), source.lstat()
        )  # NFS may have linked it and lost the reply
    return True
