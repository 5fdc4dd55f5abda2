//! Where a list goes on: the text that a page ends with and the next request brings back. Whoever
//! asks checks it here first, because a store that is given anything else begins again at the top.

use model::{JobId, RunId, Time};
use std::fmt;

/// A place in a list of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Of all runs: behind this unfinished one.
    Unfinished(RunId),
    /// Of all runs: behind this place in the order of ends.
    Ended(i64),
    /// Of a job's runs: behind this instant and run.
    OfJob(Time, RunId),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cursor::Unfinished(run) => write!(f, "l.{run}"),
            Cursor::Ended(place) => write!(f, "e.{place}"),
            Cursor::OfJob(nominal, run) => write!(f, "{}.{run}", nominal.micros()),
        }
    }
}

/// A place in a list of jobs is the id of its last one.
pub fn jobs(text: &str) -> Option<JobId> {
    JobId::parse(text)
}

pub fn runs(text: &str) -> Option<Cursor> {
    let (kind, rest) = text.split_once('.')?;
    let cursor = match kind {
        "l" => Cursor::Unfinished(RunId::parse(rest)?),
        "e" => Cursor::Ended(rest.parse().ok()?),
        nominal => Cursor::OfJob(Time::from_micros(nominal.parse().ok()?), RunId::parse(rest)?),
    };
    // One place has one spelling: `e.+7` is not a cursor that anybody was given.
    (cursor.to_string() == text).then_some(cursor)
}

/// Is this a cursor that some list of runs ended with? The store in memory names the run alone.
pub fn is_of_runs(text: &str) -> bool {
    runs(text).is_some() || RunId::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Cause, Slot};

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let job = JobId::mint(Time::MIN, Slot::from_bits(7), 12);
        let run = RunId::new(job, Cause::OneOff);
        for cursor in [
            Cursor::Unfinished(run),
            Cursor::Ended(0),
            Cursor::Ended(i64::MAX),
            Cursor::OfJob(Time::from_micros(-5), run),
        ] {
            assert_eq!(runs(&cursor.to_string()), Some(cursor));
        }
        assert_eq!(jobs(&job.to_string()), Some(job));
        assert!(is_of_runs(&run.to_string()));
        for text in ["", "l.", "l.x", "e.", "e.+7", "e.07", "e.7x", "7", ".", "x.1", "l.e.7"] {
            assert!(!is_of_runs(text), "{text}");
        }
    }
}
