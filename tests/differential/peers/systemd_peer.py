"""Compares with `systemd-analyze calendar`: plain calendar arithmetic. Reads lines on stdin."""

import calendar
import json
import os
import re
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path

import tzdata
from report import Report

OPEN_DAYS = re.compile(r"(-)(\d+)/(\d+) ")
INSTANT = re.compile(r"(?:Next elapse|Iter\. #\d+|\(in UTC\)): (.*)$")


def ask(cases):
    """The answers of one call: many expressions, one zone, one start."""
    zone, after, count = cases[0]["zone"], cases[0]["after"], cases[0]["count"]
    command = ["systemd-analyze", "calendar", f"--base-time=@{after}", f"--iterations={count}"]
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "TZ": zone,
        "TZDIR": str(Path(tzdata.__file__).parent / "zoneinfo"),
    }
    done = subprocess.run(
        command + [case["peer"] for case in cases], env=environment, capture_output=True, text=True
    )
    blocks = [block for block in done.stdout.split("\n\n") if block.strip()]
    if done.returncode == 0 and len(blocks) == len(cases):
        return [instants(block) for block in blocks]
    if len(cases) == 1:
        return [f"refused: {done.stderr.strip()[:300]}"]
    # One refused expression must not hide the other answers of its batch.
    return [answer for case in cases for answer in ask([case])]


def known(case, theirs):
    """The class of a difference, by rule. See docs/adr/0002-calendar-differences.md."""
    if case["error"]:
        return None
    if isinstance(theirs, str):
        return "gives-up" if "Infinite loop in calendar calculation" in theirs else None
    # An open repetition of days (`-1/7`) that runs over the end of the year loses the first day of
    # January. The same days as a list must give our answer.
    spelled = OPEN_DAYS.sub(spell, case["peer"])
    if spelled != case["peer"] and ask([{**case, "peer": spelled}]) == [case["instants"]]:
        return "repetition-over-new-year"
    return None


def spell(match):
    return match[1] + ",".join(str(day) for day in range(int(match[2]), 32, int(match[3]))) + " "


def instants(block):
    found = []
    for line in block.splitlines():
        match = INSTANT.search(line)
        if match and match[1] != "never":
            # `Sun 2027-03-28 03:00:00 CEST`
            day = match[1].split(" ", 1)[1].rsplit(" ", 1)[0]
            second = calendar.timegm(time.strptime(day, "%Y-%m-%d %H:%M:%S"))
            # Local time, then the same in UTC, unless the zone has no offset then.
            if "in UTC" in line:
                found[-1] = second
            else:
                found.append(second)
    return found


if __name__ == "__main__":
    version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True)
    report = Report(" ".join(version.stdout.split()[:2]))
    cases = map(json.loads, sys.stdin)
    for _, batch in groupby(cases, key=lambda case: (case["zone"], case["after"], case["count"])):
        batch = list(batch)
        for case, theirs in zip(batch, ask(batch)):
            same = theirs == case["instants"]
            report.add(case, theirs, None if same else known(case, theirs))
    report.finish()
