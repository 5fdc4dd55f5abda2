//! Ids as bytes. Big-endian, so that a database's order of blobs is the model's order of ids.

use model::id::Part;
use model::row::{BacklogId, BacklogKind};
use model::{JobId, RunId, Text, Time};

/// Larger than every id: the end of a range.
pub const LAST: [u8; 26] = [0xff; 26];
/// Smaller than every id.
pub const FIRST: [u8; 0] = [];

pub fn job_bytes(id: JobId) -> [u8; 16] {
    id.to_bytes()
}

pub fn run_bytes(id: RunId) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&id.job.to_bytes());
    bytes[16..].copy_from_slice(&id.part.bits().to_be_bytes());
    bytes
}

/// The largest id that a run of this job can have.
pub fn last_of(job: JobId) -> [u8; 24] {
    run_bytes(RunId { job, part: Part::from_bits(u64::MAX) })
}

pub fn backlog_bytes(id: BacklogId) -> [u8; 25] {
    let (tag, value) = match id.kind {
        // With the sign turned, negative times sort before positive ones.
        BacklogKind::CatchUp { from } => (0, from.micros() as u64 ^ (1 << 63)),
        BacklogKind::Backfill { operation } => (1, u64::from(operation)),
    };
    let mut bytes = [0; 25];
    bytes[..16].copy_from_slice(&id.job.to_bytes());
    bytes[16] = tag;
    bytes[17..].copy_from_slice(&value.to_be_bytes());
    bytes
}

pub fn job_id(bytes: &[u8]) -> Option<JobId> {
    let bits = u128::from_be_bytes(bytes.try_into().ok()?);
    Some(JobId::from_bits((bits >> 64) as u64, bits as u64))
}

pub fn run_id(bytes: &[u8]) -> Option<RunId> {
    let (job, part) = bytes.split_at_checked(16)?;
    let part = u64::from_be_bytes(part.try_into().ok()?);
    Some(RunId { job: job_id(job)?, part: Part::from_bits(part) })
}

pub fn backlog_id(bytes: &[u8]) -> Option<BacklogId> {
    let (job, rest) = bytes.split_at_checked(16)?;
    let (tag, value) = rest.split_first()?;
    let value = u64::from_be_bytes(value.try_into().ok()?);
    let kind = match tag {
        0 => BacklogKind::CatchUp { from: Time::from_micros((value ^ (1 << 63)) as i64) },
        1 => BacklogKind::Backfill { operation: u16::try_from(value).ok()? },
        _ => return None,
    };
    Some(BacklogId { job: job_id(job)?, kind })
}

/// A group without NULL, because NULL compares with nothing and paging compares. No group sorts
/// before every group, also before the empty one.
pub fn group_text(group: Option<&Text>) -> String {
    group.map_or_else(String::new, |group| format!("={group}"))
}

pub fn group_of(text: &str) -> Option<Option<Text>> {
    if text.is_empty() {
        return Some(None);
    }
    text.strip_prefix('=').map(|group| Some(Text::from(group)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Cause;

    #[test]
    fn bytes_round_trip_in_order() {
        let job = |n| JobId::from_bits(n, u64::MAX - n);
        let mut runs: Vec<RunId> = (0..40)
            .map(|n| RunId::new(job(n % 3), Cause::Occurrence(Time::from_secs(n as i64 * 7))))
            .collect();
        runs.push(RunId::first_of(job(1)));
        runs.sort();
        assert!(runs.iter().map(|id| run_bytes(*id)).is_sorted());
        assert!(runs.iter().all(|id| run_id(&run_bytes(*id)) == Some(*id)));
        let from = |micros| BacklogKind::CatchUp { from: Time::from_micros(micros) };
        let number = |operation| BacklogKind::Backfill { operation };
        let kinds = [from(i64::MIN), from(-1), from(0), from(i64::MAX), number(0), number(9)];
        let ids = kinds.map(|kind| BacklogId { job: job(1), kind });
        assert!(ids.is_sorted() && ids.iter().map(|id| backlog_bytes(*id)).is_sorted());
        assert!(ids.iter().all(|id| backlog_id(&backlog_bytes(*id)) == Some(*id)));
        assert_eq!(run_id(&[1; 23]), None);
        assert_eq!(backlog_id(&[2; 25]), None);
    }

    #[test]
    fn groups_round_trip_in_order() {
        let groups: [Option<Text>; 4] = [None, Some("".into()), Some("=".into()), Some("g".into())];
        assert!(groups.iter().map(|group| group_text(group.as_ref())).is_sorted());
        for group in groups {
            assert_eq!(group_of(&group_text(group.as_ref())), Some(group));
        }
        assert_eq!(group_of("g"), None);
    }
}
