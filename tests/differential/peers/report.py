"""What every comparison prints, and when it fails. Standard library only."""

import json
import sys
from collections import Counter

SHOWN_MAX = 20


def iso(second):
    from datetime import datetime, timezone

    return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Report:
    """`known` names a class of differences that docs/adr/0002-calendar-differences.md decides."""

    def __init__(self, peer):
        self.peer = peer
        self.passed = 0
        self.known = Counter()
        self.failed = []

    def add(self, case, theirs, known):
        if case["error"] is None and case["instants"] == theirs:
            self.passed += 1
        elif known is not None:
            self.known[known] += 1
        else:
            self.failed.append((case, theirs))

    def finish(self):
        for case, theirs in self.failed[:SHOWN_MAX]:
            dialect = " (quartz)" if case["quartz"] else ""
            print(f"DIFFERENT {case['cron']!r}{dialect} {case['zone']} after {iso(case['after'])}")
            if case["peer"]:
                print(f"  asked as {case['peer']!r}")
            print(f"  ours    {case['error'] or [iso(i) for i in case['instants']]}")
            print(f"  theirs  {theirs if isinstance(theirs, str) else [iso(i) for i in theirs]}")
            print(f"  case    {json.dumps(case)}")
        if len(self.failed) > SHOWN_MAX:
            print(f"… and {len(self.failed) - SHOWN_MAX} more")
        known = ", ".join(f"{name} {count}" for name, count in sorted(self.known.items()))
        note = f"; {sum(self.known.values())} known differences: {known}" if known else ""
        print(f"differential: {self.passed} passed, {len(self.failed)} failed ({self.peer}{note})")
        # Nothing compared is not a pass: a broken pipe or a generator that writes nothing.
        sys.exit(1 if self.failed or not self.passed else 0)
