"""Compares with cronsim, which copies Debian's cron. Reads the generator's lines on stdin."""

import json
import sys
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from multiprocessing import Pool
from zoneinfo import ZoneInfo, reset_tzpath

from cronsim import CronSim, CronSimError
from report import Report

# Read the pinned tzdata package and not whatever the machine has.
reset_tzpath(to=[])

UTC = timezone.utc
HALF_CENTURY = timedelta(days=365.25 * 50).total_seconds()


def ask(case):
    zone = UTC if case["zone"] == "UTC" else ZoneInfo(case["zone"])
    start = datetime.fromtimestamp(case["after"], zone)
    try:
        walk = CronSim(case["cron"], start)
    except CronSimError as error:
        # It refuses what can never match; for us that is an empty schedule.
        return [] if str(error) == "Bad day-of-month" else f"refused: {error}"
    found = []
    while len(found) < case["count"]:
        try:
            instant = int(next(walk).astimezone(UTC).timestamp())
        except StopIteration:
            break
        # Started inside the second pass of a repeated hour, cronsim forgets which pass it is in
        # and answers with an instant of the first, in the past. "Next" is later than its start.
        if instant > case["after"]:
            found.append(instant)
    return found


def changes(zone, start, end):
    """Every change of the clocks in the range: (instant, seconds gained)."""
    offset = lambda second: int(datetime.fromtimestamp(second, zone).utcoffset().total_seconds())
    found = []
    for low in range(int(start), int(end), 3600):
        high = low + 3600
        before, after = offset(low), offset(high)
        if before == after:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == before else (low, middle)
        found.append((high, after - before))
    return found


def referee(case, start, end):
    """A wildcard job follows real time: the first real minute whose local reading matches."""
    zone = ZoneInfo(case["zone"])
    rule = CronSim(case["cron"], datetime(2000, 1, 1))
    second = start - start % 60 + 60
    while second <= end:
        local = datetime.fromtimestamp(second, zone)
        if (
            local.second == 0
            and local.minute in rule.minutes
            and local.hour in rule.hours
            and local.month in rule.months
            and rule.match_day(local.date())
        ):
            return second
        second += 60
    return None


def known(case, theirs):
    """The class of a difference, by rule. See docs/adr/0002-calendar-differences.md."""
    ours = case["instants"]
    if case["error"] or isinstance(theirs, str):
        return None
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    previous = ours[same - 1] if same else case["after"]
    if same == len(theirs) and same < len(ours):
        return "search-horizon" if ours[same] - previous > HALF_CENTURY * 0.97 else None
    if same == len(ours) or case["zone"] == "UTC":
        return None
    first, last = sorted((ours[same], theirs[same]))
    zone = ZoneInfo(case["zone"])
    near = changes(zone, max(previous, first - 2 * 86400), min(last, first + 2 * 86400))
    minute, hour = case["cron"].split()[:2]
    wildcard = minute.startswith("*") or hour.startswith("*")
    odd = any(gained % 3600 for _, gained in near)
    date_back = any(
        gained < 0
        and datetime.fromtimestamp(at - 1, zone).date() > datetime.fromtimestamp(at, zone).date()
        for at, gained in near
    )
    if wildcard and (odd or date_back) and ours[same] == first:
        if referee(case, previous, last) == ours[same]:
            return "odd-shift" if odd else "date-goes-back"
    # Its search for the end of a gap goes by whole minutes.
    if any(at % 60 or gained % 60 for at, gained in near) and last - first < 60:
        return "seconds-in-offset"
    return None


def compare(line):
    case = json.loads(line)
    theirs = ask(case)
    same = case["error"] is None and case["instants"] == theirs
    return case, theirs, None if same else known(case, theirs)


if __name__ == "__main__":
    report = Report(f"cronsim {version('cronsim')}, tzdata {version('tzdata')}")
    with Pool() as pool:
        for result in pool.imap(compare, sys.stdin, chunksize=250):
            report.add(*result)
    report.finish()
