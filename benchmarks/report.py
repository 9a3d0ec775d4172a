"""Makes benchmarks.md and the plots from benchmarks.jsonl.

Example: python -m benchmarks.report docs/results   (run.sh does it after each measurement)
"""

import dataclasses
import itertools
import math
import pathlib
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks import plots
from benchmarks.harness import Record, read_records
from benchmarks.levels import at_common_levels, with_env_steps
from benchmarks.measurements import LEAST_SCALING, OURS, Target, find_target, is_ours
from tfagents_system.comparison.compare import compare_scores, verdict
from tfagents_system.core.programs.command_line import run_tool

RECORDS = "benchmarks.jsonl"
REPORT = "benchmarks.md"
HEADER = (
    "| what | on | cores | contestant | median | min | max | ratio to ours | target | met |\n"
    "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | --- | --- |"
)
INTRODUCTION = """# Benchmarks

Made by `benchmarks/run.sh`, from [{records}]({records}). Contestants of one call ran in turns,
each with all of its programs on the same cores of one machine; the records have the time of each.
Of units with `/s`, of `%` and of returns more is better, of all others less. A run that did not
reach its level within the limit counts as infinitely slow, unless a level is named that all runs
reached.
"""


@dataclasses.dataclass(frozen=True)
class Summary:
    """All repeats of one value of one contestant."""

    values: tuple[float, ...]  # math.inf: not reached
    unit: str

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def more_is_better(self) -> bool:
        """True if a higher value is better."""
        return self.unit.endswith("/s") or self.unit in ("%", "return")

    def times_as_good(self, other: "Summary") -> float:
        """Returns how many times as good this median is as the median of `other`."""
        mine, others = self.median, other.median
        if mine == others:
            return 1.0
        better, worse = (mine, others) if self.more_is_better else (others, mine)
        return better / worse if worse else math.inf


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One value of all contestants, on one environment and number of cores."""

    name: str
    metric: str
    environment: str
    cores: int
    summaries: dict[str, Summary]  # by contestant

    @property
    def cores_text(self) -> str:
        """The number of cores as text, such as `2 cores`."""
        return "1 core" if self.cores == 1 else f"{self.cores} cores"

    @property
    def ours(self) -> str | None:
        """`ours`, or its best variant if only variants were measured with a peer."""
        variants = [name for name in self.summaries if is_ours(name)]
        if OURS in variants:
            return OURS
        if not variants or len(variants) == len(self.summaries):
            return None
        first = self.summaries[variants[0]]
        return max(variants, key=lambda name: self.summaries[name].times_as_good(first))

    @property
    def best_peer(self) -> str | None:
        """The best peer; None if there is none."""
        peers = [name for name in self.summaries if not is_ours(name)]
        if self.ours is None or not peers:
            return None
        ours = self.summaries[self.ours]
        return max(peers, key=lambda name: self.summaries[name].times_as_good(ours))

    @property
    def target(self) -> Target | None:
        """The target for ours."""
        return find_target(self.name, self.metric, self.environment, self.cores)

    def is_met(self, variant: str = OURS) -> bool | None:
        """Whether one of ours reaches the target; None if there is nothing to compare."""
        if self.target is None or not is_ours(variant):
            return None
        ours = self.summaries[variant]
        if self.target.times_best_peer is not None:
            if self.best_peer is None:
                return None
            return ours.times_as_good(self.summaries[self.best_peer]) >= self.target.times_best_peer
        if ours.more_is_better:
            return ours.median >= self.target.value
        return ours.median <= self.target.value


def compare(records: Iterable[Record]) -> list[Comparison]:
    """Groups the records in the order of first appearance, without failed runs."""
    comparisons: dict[tuple, dict[str, list[Record]]] = {}
    for record in records:
        if "error" not in record:
            key = tuple(record[field] for field in ("name", "metric", "environment", "cores"))
            by_contestant = comparisons.setdefault(key, {})
            by_contestant.setdefault(record["contestant"], []).append(record)
    return [
        Comparison(*key, {name: _summary(group) for name, group in by_contestant.items()})
        for key, by_contestant in comparisons.items()
    ]


def _summary(records: Sequence[Record]) -> Summary:
    values = tuple(math.inf if r["value"] is None else r["value"] for r in records)
    return Summary(values, records[0]["unit"])


def number(value: float | None, unit: str = "") -> str:
    """Returns a number with at least three significant digits and `unit`, or `not reached`."""
    if value is None or math.isinf(value):
        return "not reached"
    if value == 0:
        return f"0{unit}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}{unit}"


def table(comparisons: Iterable[Comparison]) -> str:
    """Returns a Markdown table with a row for each contestant."""
    rows = [HEADER]
    for comparison in comparisons:
        ours = comparison.summaries.get(comparison.ours or "")
        for contestant, summary in comparison.summaries.items():
            cells = [
                f"`{comparison.metric}`", comparison.environment, comparison.cores, contestant,
                number(summary.median, f" {summary.unit}"), number(min(summary.values)),
                number(max(summary.values)), _ratio(summary, ours),
                *_verdict(comparison, contestant),
            ]  # fmt: skip
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def peer_wins(comparisons: Iterable[Comparison]) -> list[str]:
    """Returns a sentence for each value in which a peer is better than ours."""
    sentences = []
    for comparison in comparisons:
        peer = comparison.best_peer
        if peer is None:
            continue
        ours, theirs = comparison.summaries[comparison.ours], comparison.summaries[peer]
        if (factor := theirs.times_as_good(ours)) > 1:
            sentences.append(
                f"{peer} wins {comparison.name} `{comparison.metric}` on "
                f"{comparison.environment}, {comparison.cores_text}: {number(theirs.median)} "
                f"against {number(ours.median, f' {ours.unit}')}{_times_better(factor)}."
            )
    return sentences


def scaling_shares(comparisons: Iterable[Comparison]) -> list[str]:
    """Returns a sentence for each number of workers: their share of proportional growth."""
    rates = {
        int(comparison.environment.split()[-2]): comparison.summaries[OURS].median
        for comparison in comparisons
        if comparison.metric == "env_steps_per_sec" and OURS in comparison.summaries
    }
    return [
        f"{count} workers: {100 * rate / (count * rates[1]):.0f} % of {count} times one worker."
        for count, rate in rates.items()
        if 1 in rates and count > 1
    ]


def seed_noise(comparisons: Iterable[Comparison]) -> list[str]:
    """Returns a sentence per pair of contestants: whether they differ by more than seed noise.

    The method is that of `sac compare`; a repeat is a seed.
    """
    sentences = []
    for comparison in comparisons:
        for first, second in itertools.combinations(comparison.summaries, 2):
            scores = (np.array(comparison.summaries[name].values) for name in (first, second))
            result = compare_scores(*scores)
            low, high = result.difference_interval
            means = " and ".join(number(float(mean)) for mean in result.means)
            sentences.append(
                f'{comparison.environment}, "{first}" less "{second}": '
                f"{result.difference:,.0f}, 95 % interval {low:,.0f} to {high:,.0f} (interquartile "
                f"means {means}). {verdict(result, first, second)}"
            )
    return sentences


def write(output: pathlib.Path = pathlib.Path("docs/results"), /) -> None:
    """Writes benchmarks.md and the plots.

    Args:
      output: Folder with benchmarks.jsonl.
    """
    records, levels = at_common_levels(read_records(output / RECORDS))
    comparisons = compare(with_env_steps(records))
    parts = [INTRODUCTION.format(records=RECORDS), _machine(records)]
    wins = peer_wins(comparisons) or ["Nowhere."]
    parts.append("## Where a peer is better\n\n" + "\n".join(f"- {line}" for line in wins))
    for name in dict.fromkeys(comparison.name for comparison in comparisons):
        group = [comparison for comparison in comparisons if comparison.name == name]
        parts.append(f"## {name}\n\n{table(group)}")
        if name == "scaling":
            lines = [
                f"Target: >= {100 * LEAST_SCALING:g} % up to 32 workers.",
                *scaling_shares(group),
            ]
            parts.append("\n".join(f"- {line}" for line in lines))
        if name == "precision":
            parts.append("\n".join(f"- {line}" for line in seed_noise(group)))
        if name == "solve" and levels:
            parts.append("\n".join(f"- {line}" for line in levels))
    if errors := [_failure(record) for record in records if "error" in record]:
        parts.append("## Failed runs\n\n" + "\n".join(errors))
    parts += [f"![{path.stem}]({path.name})" for path in plots.draw(comparisons, records, output)]
    (output / REPORT).write_text("\n\n".join(part.strip() for part in parts) + "\n")


def _ratio(summary: Summary, ours: Summary | None) -> str:
    if ours is None or ours.median == 0 or math.isinf(ours.median) or math.isinf(summary.median):
        return ""
    return f"{summary.median / ours.median:.2f}"


def _verdict(comparison: Comparison, contestant: str) -> tuple[str, str]:
    target, is_met = comparison.target, comparison.is_met(contestant)
    if target is None or is_met is None:
        return "", ""
    if target.times_best_peer is not None:
        text = f"{target.times_best_peer:.3g} x as good as {comparison.best_peer}"
    else:
        sign = ">=" if comparison.summaries[contestant].more_is_better else "<="
        text = f"{sign} {number(target.value)}"
    return text, "yes" if is_met else "**no**"


def _times_better(factor: float) -> str:
    return "" if math.isinf(factor) else f", {factor:.2f} times as good"


def _machine(records: Sequence[Record]) -> str:
    models = sorted({record["cpu_model"] for record in records})
    versions: dict[str, Any] = {}
    for record in records:
        for package, version in record.get("versions", {}).items():
            versions.setdefault(package, set()).add(version)
    listed = ", ".join(f"{name} {'/'.join(sorted(v))}" for name, v in sorted(versions.items()))
    return f"CPU: {'; '.join(models) or 'none'}. Versions: {listed}."


def _failure(record: Record) -> str:
    last_line = record["error"].strip().splitlines()[-1]
    return (
        f"- {record['name']}, {record['environment']}, {record['cores']} cores, "
        f"{record['contestant']}, repeat {record['repeat']}: {last_line}"
    )


if __name__ == "__main__":
    run_tool(write, sys.argv)
