"""Tests of what the runner makes of the numbers: python3 -m unittest discover -s bench/peers/runner"""

import struct
import unittest

from contest import LATENESS, PEERS, WORKS, hurried
from measure import row_of, submission
from report import EMBEDDED, POSTGRES, better, promises, wins, work_table
from stats import lateness, percentile, read_records, spread, tally, trouble


def row(peer, work, **values):
    counts = {"missing": 0, "repeated": 0, "early": 0, "strange": 0}
    return {"peer": peer, "work": work, "jobs": 10, "tally": counts} | values


class Statistics(unittest.TestCase):
    def test_a_percentile_is_a_value_that_was_measured(self):
        self.assertEqual(percentile(list(range(1, 101)), 0.5), 50)
        self.assertEqual(percentile(list(range(1, 101)), 0.99), 99)
        self.assertEqual(percentile(list(range(1, 101)), 1.0), 100)
        self.assertEqual(percentile([7], 0.5), 7)
        self.assertRaises(ValueError, percentile, [], 0.5)

    def test_the_spread_of_no_repetition_is_none(self):
        self.assertIsNone(spread([]))
        found = spread([3.0, 1.0, 9.0])
        self.assertEqual((found.median, found.least, found.most, found.count), (3.0, 1.0, 9.0, 3))

    def test_lateness_counts_from_each_jobs_own_due_time_to_its_first_start(self):
        due = {"first_us": 1_000_000, "step_us": 1_000}
        records = [(0, 1_002_000), (1, 1_001_500), (0, 9_000_000)]
        self.assertEqual(lateness(records, due), {"p50": 0.5, "p99": 2.0, "max": 2.0})


class Counting(unittest.TestCase):
    def test_what_is_missing_repeated_early_or_strange_is_told_apart(self):
        due = {"first_us": 100, "step_us": 10}
        records = [(0, 100), (1, 109), (1, 120), (7, 500)]
        found = tally(records, 3, due)
        self.assertEqual(found, {"missing": 1, "repeated": 1, "early": 1, "strange": 1})

    def test_half_a_record_is_an_error(self):
        self.assertEqual(read_records(struct.pack("<qq", 5, 6)), [(5, 6)])
        self.assertRaises(ValueError, read_records, b"12345678")

    def test_a_measurement_that_lost_a_job_does_not_count(self):
        lost = row("x", "noop")
        lost["tally"]["missing"] = 2
        self.assertIn("2 of 10", trouble(lost))
        self.assertIn("due before", trouble(row("x", "spread", submitted_after_due=True)))
        self.assertIsNone(trouble(row("x", "noop")))

    def test_a_submission_is_counted_in_the_store(self):
        said = {"begun_us": 0, "ended_us": 2_000_000, "stored": 8}
        found = submission(10, said)
        self.assertEqual((found["seconds"], found["tally"]["missing"]), (2.0, 2))

    def test_a_queue_empties_from_its_first_job_on(self):
        said = {"begun_us": 0, "submitted_us": 0, "ended_us": 5_000_000, "due": None}
        records = [(1, 3_500_000), (0, 3_000_000)]
        self.assertEqual(row_of("drain", 2, said, records)["seconds"], 2.0)
        self.assertEqual(row_of("noop", 2, said, records)["seconds"], 5.0)


class Report(unittest.TestCase):
    rows = [
        row(EMBEDDED, "noop", per_second=200.0), row(EMBEDDED, "noop", per_second=400.0),
        row("BullMQ, always", "noop", per_second=100.0), row("graphile-worker", "noop", per_second=600.0),
        row(EMBEDDED, "burst", millis={"p50": 1, "p99": 10, "max": 20}),
        row("BullMQ, always", "burst", millis={"p50": 1, "p99": 40, "max": 50}),
    ]

    def test_a_ratio_above_one_is_dulys_for_throughput_and_for_lateness(self):
        self.assertEqual(better(self.rows, EMBEDDED, "BullMQ, always", "noop"), 3.0)
        self.assertEqual(better(self.rows, EMBEDDED, "BullMQ, always", "burst"), 4.0)
        self.assertIsNone(better(self.rows, POSTGRES, "BullMQ, always", "noop"))

    def test_where_a_peer_wins_is_said(self):
        self.assertIn("**graphile-worker** is 2.00× as good as duly, embedded", wins(self.rows))
        self.assertNotIn("BullMQ", wins(self.rows))

    def test_a_promise_is_held_against_the_best_peer(self):
        text = promises(self.rows)
        self.assertIn("| noop | duly, embedded | graphile-worker | 1.5× | 0.50× | **no** | graphile-worker | 0.50× |", text)
        self.assertIn("| burst | duly, embedded | BullMQ, always | 2.0× | 4.00× | yes | BullMQ, always | 4.00× |", text)

    def test_what_we_set_up_ourselves_stands_beside(self):
        millis = {"p50": 1, "p99": 2, "max": 3}
        row = {"peer": "graphile-worker, every 10 ms", "work": "burst", "millis": millis}
        text = promises([*self.rows, row])
        said = "| burst | duly, embedded | BullMQ, always | 2.0× | 4.00× | yes | graphile-worker, every 10 ms |"
        self.assertIn(said, text)

    def test_a_table_has_the_spread_and_both_ratios(self):
        self.assertIn("| duly, embedded | 10 | 2 | 300 [200–400] | 1.00× | – | 0 | 0 |", work_table(self.rows, "noop"))

    def test_every_peer_has_every_work(self):
        for peer in PEERS:
            works = LATENESS if peer.name.endswith("every 10 ms") else set(WORKS)
            self.assertEqual(set(peer.jobs), works, peer.name)

    def test_a_hurried_peer_asks_more_often_and_is_ours(self):
        peer = hurried("graphile-worker")
        self.assertEqual((peer.poll_due_ms, set(peer.ours)), (10, LATENESS))


if __name__ == "__main__":
    unittest.main()
