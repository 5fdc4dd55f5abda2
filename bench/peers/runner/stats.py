"""What is made of the numbers: percentiles, medians with their spread, and who saw what how often."""

from array import array
from dataclasses import dataclass
from math import ceil
from statistics import median


@dataclass(frozen=True)
class Spread:
    """The median of the repetitions, and the least and the most of them."""

    median: float
    least: float
    most: float
    count: int


def spread(values: list[float]) -> Spread | None:
    if not values:
        return None
    return Spread(median(values), min(values), max(values), len(values))


def percentile(ordered: list[int], share: float) -> int:
    """The smallest value that at least this share of all values does not exceed."""
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def read_records(data: bytes) -> list[tuple[int, int]]:
    """Pairs of a job's number and the instant it started, in microseconds."""
    if len(data) % 16:
        raise ValueError(f"{len(data)} bytes are no whole number of records")
    values = array("q", data)
    return list(zip(values[::2], values[1::2]))


def tally(records: list[tuple[int, int]], jobs: int, due: dict | None) -> dict:
    """Each job must be seen once, and not before its time."""
    counts = bytearray(jobs)
    repeated = early = strange = 0
    for number, at in records:
        if not 0 <= number < jobs:
            strange += 1
        elif counts[number]:
            repeated += 1
        else:
            counts[number] = 1
            if due and at < due_of(due, number):
                early += 1
    return {"missing": counts.count(0), "repeated": repeated, "early": early, "strange": strange}


def lateness(records: list[tuple[int, int]], due: dict) -> dict | None:
    """From due to the first start of each job, in milliseconds."""
    first: dict[int, int] = {}
    for number, at in records:
        first[number] = min(at, first.get(number, at))
    late = sorted(max(0, at - due_of(due, number)) for number, at in first.items())
    if not late:
        return None
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: percentile(late, share) / 1000 for name, share in shares.items()}


def due_of(due: dict, number: int) -> int:
    return due["first_us"] + due["step_us"] * number


def trouble(row: dict) -> str | None:
    """Why a measurement does not count, if it does not."""
    if row["tally"]["missing"]:
        return f"{row['tally']['missing']} of {row['jobs']} jobs never ran"
    if row["tally"]["strange"]:
        return f"{row['tally']['strange']} runs of jobs that nobody made"
    if row.get("submitted_after_due"):
        return "the jobs were due before all of them were submitted"
    return None
