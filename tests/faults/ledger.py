"""Counts of faults and of what became of them."""

import csv
import pathlib
import statistics
from typing import NamedTuple


class Entry(NamedTuple):
    row: str  # what was hit
    fault: str  # when, or how
    passed: bool
    recovery_secs: float | None


class Ledger:
    """Entries of a test session, one a fault, also in the CSV file `path` as they come."""

    def __init__(self, path: pathlib.Path | None):
        self.rows: list[Entry] = []
        self._path = path
        if path:
            path.write_text(",".join(Entry._fields) + "\n")

    def add(self, row: str, fault: str, passed: bool, recovery_secs: float | None = None) -> None:
        secs = None if recovery_secs is None else round(recovery_secs, 2)
        self.rows.append(Entry(row, fault, passed, secs))
        if self._path:
            with self._path.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(self.rows[-1])

    def table(self) -> list[str]:
        """Returns a Markdown table, line by line: passes and recovery times of each fault."""
        lines = [
            "| what was hit | when or how | passed | median recovery | worst |",
            "| --- | --- | ---: | ---: | ---: |",
        ]
        for row, fault in dict.fromkeys((entry.row, entry.fault) for entry in self.rows):
            entries = [e for e in self.rows if (e.row, e.fault) == (row, fault)]
            secs = [e.recovery_secs for e in entries if e.recovery_secs is not None]
            figures = f"{statistics.median(secs):.1f} s | {max(secs):.1f} s" if secs else "|"
            passed = sum(e.passed for e in entries)
            lines.append(f"| {row} | {fault} | {passed} of {len(entries)} | {figures} |")
        return lines
