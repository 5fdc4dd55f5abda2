"""The rows as tables: medians with their spread, ratios to duly, and where a peer wins."""

from contest import LATENESS, PEERS, WORKS
from stats import Spread, spread

EMBEDDED, POSTGRES = PEERS[0].name, PEERS[1].name
TITLES = {
    "submit": "Submit in bulk (jobs of a day later, nobody works), jobs/s",
    "noop": "No-op: submit, run, acknowledge at the same time, jobs/s",
    "drain": "No-op: empty a full queue, jobs/s",
    "webhook": "Webhooks: submit, POST, received, jobs/s",
    "spread": "Spread over 10 s, lateness in ms",
    "burst": "Due at one instant, lateness in ms",
}
# The figures the project asks of itself beside its peers: the work, which duly, against whom, at least.
PROMISES = [
    ("noop", EMBEDDED, "all", 1.5),
    ("noop", POSTGRES, "postgres", 1.0),
    ("noop", POSTGRES, "postgres that keeps done jobs", 1.5),
    ("webhook", EMBEDDED, "all", 2.0),
    ("burst", EMBEDDED, "all", 2.0),
    ("spread", EMBEDDED, "all", 7.0),
]


def values(rows: list[dict], peer: str, work: str, of: str) -> Spread | None:
    mine = [row for row in rows if row["peer"] == peer and row["work"] == work]
    return spread([row["millis"][of] if work in LATENESS else row[of] for row in mine])


def better(rows: list[dict], duly: str, peer: str, work: str) -> float | None:
    """How many times better duly is: by throughput, or by the 99th percentile of lateness."""
    of = "p99" if work in LATENESS else "per_second"
    ours, theirs = values(rows, duly, work, of), values(rows, peer, work, of)
    if not ours or not theirs:
        return None
    good, bad = (theirs, ours) if work in LATENESS else (ours, theirs)
    return good.median / bad.median if bad.median else None


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def cell(found: Spread | None) -> str:
    if not found:
        return "–"
    text = figure(found.median)
    return text if found.count == 1 else f"{text} [{figure(found.least)}–{figure(found.most)}]"


def times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}×"


def table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, rule, *lines])


def work_table(rows: list[dict], work: str) -> str:
    columns = ["p50", "p99", "max"] if work in LATENESS else ["per_second"]
    names = columns if work in LATENESS else ["jobs/s"]
    by = " (p99)" if work in LATENESS else ""
    head = ["", "jobs", "reps", *names, f"{EMBEDDED}{by}", f"{POSTGRES}{by}", "repeated", "early"]
    lines = []
    for peer in PEERS:
        mine = [row for row in rows if row["peer"] == peer.name and row["work"] == work]
        if not mine:
            continue
        line = [peer.name, f"{mine[0]['jobs']:,}", str(len(mine))]
        line += [cell(values(rows, peer.name, work, column)) for column in columns]
        line += [times(better(rows, duly, peer.name, work)) for duly in (EMBEDDED, POSTGRES)]
        line += [str(sum(row["tally"][what] for row in mine)) for what in ("repeated", "early")]
        lines.append(line)
    return f"## {TITLES[work]}\n\n{table(head, lines)}"


def rivals(whom: str, work: str, ours: bool) -> list[str]:
    """Set up as their documentation says; with `ours` those, too, that we set up otherwise."""
    peers = [peer for peer in PEERS if peer.driver and (ours or work not in peer.ours)]
    if whom.startswith("postgres"):
        peers = [peer for peer in peers if peer.store == "postgres"]
    if whom.endswith("keeps done jobs"):
        peers = [peer for peer in peers if peer.keeps.startswith("done rows")]
    return [peer.name for peer in peers]


def promises(rows: list[dict]) -> str:
    lines = []
    for work, duly, whom, least in PROMISES:
        line = [work, duly]
        for ours in (False, True):
            found = [(better(rows, duly, peer, work), peer) for peer in rivals(whom, work, ours)]
            found = [(ratio, peer) for ratio, peer in found if ratio is not None]
            if not found:
                break
            ratio, best = min(found)
            line += [best, f"{least}×", times(ratio), "yes" if ratio >= least else "**no**"] if not ours else [best, times(ratio)]
        else:
            lines.append(line)
    head = ["work", "duly", "best of its peers", "at least", "is", "kept", "best, with those that we set up ourselves", "is"]
    return "## duly and the best peer\n\n" + table(head, lines)


def wins(rows: list[dict]) -> str:
    """Every row where a peer is ahead of duly."""
    lines = []
    for work in WORKS:
        for peer in (peer for peer in PEERS if peer.driver):
            for duly in (EMBEDDED, POSTGRES):
                ratio = better(rows, duly, peer.name, work)
                if ratio is not None and ratio < 1:
                    lines.append(f"- {TITLES[work].split(',')[0]}: **{peer.name}** is {1 / ratio:.2f}× as good as {duly}.")
    return "## Where a peer wins\n\n" + ("\n".join(lines) or "Nowhere in this run.") + "\n"


def markdown(result: dict) -> str:
    about = result["about"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    text = [
        "# duly and its peers\n",
        f"{about['date']}. {about['machine']}; load average before the run {about['load_before']}.\n",
        f"{versions}.\n",
        f"Median [least–most] of up to {about['repetitions']} repetitions, interleaved, in one run of "
        f"`{about['command']}` ({about['seconds'] / 60:.0f} minutes). Ratios say how many times better duly is in "
        "the same run: below 1 the peer is ahead. Method, settings and what the peers do not do: "
        "[bench/peers/README.md](../peers/README.md).\n",
    ]
    if about["scale"] != 1:
        text.append(f"**Scale {about['scale']}: a trial of the harness, not a measurement.**\n")
    text.append(promises(result["rows"]))
    text += [work_table(result["rows"], work) for work in WORKS if any(row["work"] == work for row in result["rows"])]
    text.append(wins(result["rows"]))
    if result["failures"]:
        lines = [f"- {failed['peer']}, {failed['work']}, repetition {failed['repetition']}: {failed['why']}" for failed in result["failures"]]
        text.append("## What did not come about\n\n" + "\n".join(lines) + "\n")
    return "\n".join(text)
