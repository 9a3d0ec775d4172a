"""The level at which learning curves are compared if not every run reached the one asked for."""

from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]


def at_common_levels(records: Iterable[Record]) -> tuple[list[Record], list[str]]:
    """Replaces the seconds of `solve` where a run did not reach its level, and says so.

    The highest level that every run of an environment reached takes its place. Where a run has no
    evaluation all stay as they are.

    Returns:
      All records, and a sentence for each environment in which they were replaced.
    """
    groups: dict[str, list[Record]] = {}
    records = list(records)
    for record in records:
        if record["name"] == "solve" and "evaluations" in record:
            groups.setdefault(record["environment"], []).append(record)
    sentences = []
    for environment, group in groups.items():
        bests = [record["best_mean"] for record in group]
        if all(record["value"] is not None for record in group) or None in bests:
            continue
        common = min(bests)
        sentences.append(
            f"{environment}: seconds to a mean return of {common:,.0f}, the highest that every run "
            f"reached. Of {group[0]['level']:,g}: {_reached(group)}."
        )
        replaced = {id(record): record | {"value": _secs_to(record, common)} for record in group}
        records = [replaced.get(id(record), record) for record in records]
    return records, sentences


def _secs_to(record: Record, level: float) -> float:
    return next(secs for secs, _, mean in record["evaluations"] if mean >= level)


def _reached(group: Iterable[Record]) -> str:
    secs: dict[str, list[str]] = {}
    for record in group:
        value = record["value"]
        text = "not reached" if value is None else f"{value:,.0f} s"
        secs.setdefault(record["contestant"], []).append(text)
    return "; ".join(f"{contestant} {', '.join(texts)}" for contestant, texts in secs.items())
