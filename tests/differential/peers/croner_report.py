"""Compares what croner_peer.mjs found with what we found."""

import json
import sys

from report import Report


def known(case):
    return None


if __name__ == "__main__":
    report = Report(f"croner {sys.argv[1]}")
    for line in sys.stdin:
        case = json.loads(line)
        report.add(case, case.pop("theirs"), known(case))
    report.finish()
