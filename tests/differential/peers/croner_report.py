"""Compares what croner_peer.mjs found with what we found."""

import json
import sys

from report import Report


def known(case, theirs, contradicts):
    """The class of a difference, by rule. See docs/adr/0002-calendar-differences.md."""
    if case["error"] or isinstance(theirs, str):
        return None
    ours = case["instants"]
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    # It jumps over an instant that it names when asked from the second before.
    if contradicts and same < len(ours) and (same == len(theirs) or ours[same] < theirs[same]):
        return "jumps-over"
    return None


if __name__ == "__main__":
    report = Report(f"croner {sys.argv[1]}")
    for line in sys.stdin:
        case = json.loads(line)
        theirs, contradicts = case.pop("theirs"), case.pop("contradicts")
        report.add(case, theirs, known(case, theirs, contradicts))
    report.finish()
