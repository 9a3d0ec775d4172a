"""Reads the learning curves of `solve`: the level to reach, and the env steps to reach it."""

from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]


def at_common_levels(records: Iterable[Record]) -> tuple[list[Record], list[str]]:
    """Lowers the level of `solve` for environments in which a run did not reach it.

    The new level is the highest that every run of the environment reached. If a run has no
    evaluation, the level stays.

    Returns:
      All records, and a sentence for each environment with a new level.
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
        replaced = {id(record): record | _reaching(record, common) for record in group}
        records = [replaced.get(id(record), record) for record in records]
    return records, sentences


def with_env_steps(records: Iterable[Record]) -> list[Record]:
    """Adds a record of env steps to the level after each record of seconds."""
    extended = []
    for record in records:
        extended.append(record)
        if record["name"] == "solve" and "evaluations" in record:
            steps = (step for _, step, mean in record["evaluations"] if mean >= record["level"])
            value = next(steps, None) if record["value"] is not None else None
            as_steps = {"metric": "solved_env_steps", "value": value, "unit": "env steps"}
            extended.append(record | as_steps)
    return extended


def _reaching(record: Record, level: float) -> Record:
    """Returns the changes of a record for another level."""
    secs = next(secs for secs, _, mean in record["evaluations"] if mean >= level)
    return {"value": secs, "level": level}


def _reached(group: Iterable[Record]) -> str:
    secs: dict[str, list[str]] = {}
    for record in group:
        value = record["value"]
        text = "not reached" if value is None else f"{value:,.0f} s"
        secs.setdefault(record["contestant"], []).append(text)
    return "; ".join(f"{contestant} {', '.join(texts)}" for contestant, texts in secs.items())
