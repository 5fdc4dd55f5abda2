"""Compares with cronsim, which copies Debian's cron. Reads the generator's lines on stdin."""

import json
import re
import signal
import sys
from datetime import datetime, time, timedelta, timezone
from importlib.metadata import version
from multiprocessing import Pool
from zoneinfo import ZoneInfo, reset_tzpath

from cronsim import CronSim, CronSimError
from report import Report

# Read the pinned tzdata package and not whatever the machine has.
reset_tzpath(to=[])

UTC = timezone.utc
SINGLE_RANGE_STEP = re.compile(r"\b(\d+)-\1/\d+")
# It gives up after fifty calendar years.
HORIZON = timedelta(days=49 * 365).total_seconds()
# In odd zones its search can go round for ever; an honest one takes milliseconds.
PATIENCE_SECONDS = 2
# More than the minutes of two repeated hours: enough to walk out of one.
TRIES_MAX = 300


def out_of_patience(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, out_of_patience)


def ask(case, cron=None):
    zone = UTC if case["zone"] == "UTC" else ZoneInfo(case["zone"])
    start = datetime.fromtimestamp(case["after"], zone)
    try:
        walk = CronSim(cron or case["cron"], start)
    except CronSimError as error:
        # It refuses what can never match; for us that is an empty schedule.
        return [] if str(error) == "Bad day-of-month" else f"refused: {error}"
    found = []
    for _ in range(TRIES_MAX):
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
        try:
            instant = int(next(walk).astimezone(UTC).timestamp())
        except (StopIteration, TimeoutError):
            break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        # Started inside the second pass of a repeated hour, cronsim forgets which pass it is in
        # and answers with an instant of the first, in the past. "Next" is later than its start.
        if instant > case["after"]:
            found.append(instant)
        if len(found) == case["count"]:
            break
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


def odd_change(zone, at, gained):
    """What is unusual about a change of the clocks, if anything."""
    before = datetime.fromtimestamp(at - 1, zone).replace(tzinfo=None) + timedelta(seconds=1)
    after = datetime.fromtimestamp(at, zone).replace(tzinfo=None)
    if gained % 3600 or before.minute or before.second:
        return "odd-shift"
    if after < before and after.date() < (before - timedelta(seconds=1)).date():
        return "date-goes-back"
    midnight = datetime.combine(before.date(), time())
    if midnight < before:
        midnight += timedelta(days=1)
    return "no-midnight" if midnight < after else None


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
    if case["error"]:
        return None
    # It reads `5-5/3` as `5/3`. Written as the single value that it is, it must give our answer.
    single = SINGLE_RANGE_STEP.sub(r"\1", case["cron"])
    if single != case["cron"]:
        theirs = ask(case, single)
        if theirs == ours:
            return "single-range-step"
        case = {**case, "cron": single}
    if isinstance(theirs, str):
        return None
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    previous = ours[same - 1] if same else case["after"]
    if same == len(ours):
        return None
    if same == len(theirs) and ours[same] - previous > HORIZON:
        return "search-horizon"
    if case["zone"] == "UTC":
        return None
    # In odd zones it can stand still and name the same instant for ever.
    theirs_next = max(theirs[same], previous) if same < len(theirs) else previous
    first, last = sorted((ours[same], theirs_next))
    zone = ZoneInfo(case["zone"])
    # From a day before, because a start inside the repeated hour is past the change itself.
    near = changes(zone, max(previous, first - 86400) - 86400, min(last, first + 2 * 86400))
    minute, hour = case["cron"].split()[:2]
    wildcard = minute.startswith("*") or hour.startswith("*")
    # A wildcard job is searched by date and in steps of whole hours. That goes wrong where the
    # clocks change by, or at, a part of an hour, go back to the day before, or jump over midnight.
    kinds = [kind for kind in (odd_change(zone, *change) for change in near) if kind]
    if wildcard and kinds and referee(case, previous, last) == ours[same]:
        return kinds[0]
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
