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
    if done.returncode or len(blocks) != len(cases):
        return [f"refused: {done.stderr.strip()[:300]}"] * len(cases)
    return [instants(block) for block in blocks]


def instants(block):
    found, utc = [], []
    for line in block.splitlines():
        match = INSTANT.search(line)
        if match and match[1] != "never":
            day, zone = match[1].split(" ", 1)[1].rsplit(" ", 1)
            if zone == "UTC":
                second = calendar.timegm(time.strptime(day, "%Y-%m-%d %H:%M:%S"))
                (utc if "in UTC" in line else found).append(second)
    return utc or found


if __name__ == "__main__":
    version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True)
    report = Report(" ".join(version.stdout.split()[:2]))
    cases = map(json.loads, sys.stdin)
    for _, batch in groupby(cases, key=lambda case: (case["zone"], case["after"], case["count"])):
        batch = list(batch)
        for case, theirs in zip(batch, ask(batch)):
            report.add(case, theirs, None)
    report.finish()
