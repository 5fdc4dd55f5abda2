//! How ids read outside: `job_` and 26 Crockford letters, `run_` and the same 26 with a suffix
//! that says what the run is for. No dots, because webhook signatures are joined with them.

use crate::id::{Cause, JobId, RunId};
use crate::time::Time;
use std::fmt;

const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The letters of a job's 128 bits.
const JOB_LETTERS: usize = 26;
const NO_LETTER: u8 = u8::MAX;

/// What each byte is worth, in either case; letters that people mistake for a digit are worth that digit.
const VALUES: [u8; 256] = {
    let mut values = [NO_LETTER; 256];
    let mut at = 0;
    while at < LETTERS.len() {
        values[LETTERS[at] as usize] = at as u8;
        values[LETTERS[at].to_ascii_uppercase() as usize] = at as u8;
        at += 1;
    }
    values[b'o' as usize] = 0;
    values[b'O' as usize] = 0;
    values[b'i' as usize] = 1;
    values[b'I' as usize] = 1;
    values[b'l' as usize] = 1;
    values[b'L' as usize] = 1;
    values
};

fn letter_value(letter: u8) -> Option<u8> {
    let value = VALUES[usize::from(letter)];
    (value != NO_LETTER).then_some(value)
}

/// The last `N` letters of a number, written at once: ids are written several times for each run, and letter by
/// letter they were a tenth of what the server did for one.
fn write_letters<const N: usize>(f: &mut fmt::Formatter<'_>, value: u128) -> fmt::Result {
    let (mut text, mut rest) = ([0; N], value);
    for letter in text.iter_mut().rev() {
        *letter = LETTERS[(rest & 31) as usize];
        rest >>= 5;
    }
    f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
}

fn read_letters(text: &str) -> Option<u128> {
    let mut value: u128 = 0;
    for letter in text.bytes() {
        value = value.checked_mul(32)? | u128::from(letter_value(letter)?);
    }
    Some(value)
}

fn write_job(f: &mut fmt::Formatter<'_>, job: JobId) -> fmt::Result {
    let (hi, lo) = job.bits();
    write_letters::<JOB_LETTERS>(f, u128::from(hi) << 64 | u128::from(lo))
}

fn read_job(text: &str) -> Option<JobId> {
    // 26 letters carry 130 bits: the first one may only use its lower three.
    if text.len() != 26 || !text.is_ascii() || letter_value(text.as_bytes()[0])? > 7 {
        return None;
    }
    let bits = read_letters(text)?;
    Some(JobId::from_bits((bits >> 64) as u64, bits as u64))
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("job_")?;
        write_job(f, *self)
    }
}

impl JobId {
    pub fn parse(text: &str) -> Option<JobId> {
        read_job(text.strip_prefix("job_")?)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("run_")?;
        write_job(f, self.job)?;
        match self.cause() {
            Cause::OneOff => Ok(()),
            Cause::Occurrence(at) => {
                f.write_str("_")?;
                write_stamp(f, at)
            }
            Cause::Trigger(id) => {
                f.write_str("_t")?;
                write_letters::<10>(f, u128::from(id))
            }
            Cause::Backfill { .. } => {
                f.write_str("_b")?;
                write_letters::<10>(f, u128::from(self.part.bits() & ((1 << 50) - 1)))
            }
            Cause::Rerun(n) => write!(f, "_r{n}"),
        }
    }
}

impl RunId {
    pub fn parse(text: &str) -> Option<RunId> {
        // Below it is cut by bytes, and only ASCII can be cut anywhere.
        let rest = text.strip_prefix("run_").filter(|rest| rest.is_ascii())?;
        let job = read_job(rest.get(..26)?)?;
        let cause = match rest.get(26..)? {
            "" => Cause::OneOff,
            suffix => parse_cause(suffix.strip_prefix('_')?)?,
        };
        let run = RunId::new(job, cause);
        // Only the one spelling that we print is an id: two texts for one run would be two keys
        // in a user's table.
        (run.to_string() == text).then_some(run)
    }
}

fn parse_cause(suffix: &str) -> Option<Cause> {
    let ten = |text: &str| (text.len() == 10).then(|| read_letters(text)).flatten();
    match suffix.as_bytes().first()? {
        b't' => Some(Cause::Trigger(ten(&suffix[1..])? as u64)),
        b'b' => {
            let bits = ten(&suffix[1..])? as u64;
            Some(crate::id::Part::from_bits(3 << 60 | bits).cause())
        }
        b'r' => suffix[1..].parse().ok().map(Cause::Rerun),
        _ => read_stamp(suffix).map(Cause::Occurrence),
    }
}

/// `20270328T010000Z`; microseconds follow the seconds only where there are any.
fn write_stamp(f: &mut fmt::Formatter<'_>, at: Time) -> fmt::Result {
    let (year, month, day) = civil_from_days(at.secs().div_euclid(86_400));
    let second = at.secs().rem_euclid(86_400);
    let (h, m, s) = (second / 3_600, second / 60 % 60, second % 60);
    write!(f, "{year:04}{month:02}{day:02}T{h:02}{m:02}{s:02}")?;
    let micros = at.micros().rem_euclid(1_000_000);
    if micros != 0 {
        write!(f, "{micros:06}")?;
    }
    f.write_str("Z")
}

fn read_stamp(text: &str) -> Option<Time> {
    let digits = text.strip_suffix('Z')?;
    let (date, clock) = digits.split_once('T')?;
    let number = |text: &str| -> Option<i64> {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    if date.len() != 8 || !(clock.len() == 6 || clock.len() == 12) {
        return None;
    }
    let (y, mo, d) = (number(&date[..4])?, number(&date[4..6])?, number(&date[6..])?);
    let (h, mi, s) = (number(&clock[..2])?, number(&clock[2..4])?, number(&clock[4..6])?);
    let micros = if clock.len() == 12 { number(&clock[6..])? } else { 0 };
    if !(1..=12).contains(&mo) || !(1..=31).contains(&d) || h > 23 || mi > 59 || s > 59 {
        return None;
    }
    let secs = days_from_civil(y, mo, d) * 86_400 + h * 3_600 + mi * 60 + s;
    Some(Time::from_micros(secs * 1_000_000 + micros))
}

/// Days since 1970-01-01 to (year, month, day) in the proleptic Gregorian calendar: eras of 400
/// years, years that begin in March so that the leap day comes last.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = year - i64::from(month <= 2);
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let mp = (month + 9) % 12;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + (153 * mp + 2) / 5 + day - 1;
    era * 146_097 + doe - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Slot;

    /// Found by the fuzz target `texts`: a letter of two bytes where a stamp is cut.
    #[test]
    fn letters_that_are_not_ascii_are_in_no_id() {
        let job = job().to_string();
        let run = job.replace("job_", "run_");
        for suffix in
            ["_00240233T7ʩ-36Z", "_ʩ0240233T010000Z", "_0024023ʩT010000Z", "_tʩ23456789", "ʩ"]
        {
            assert_eq!(RunId::parse(&format!("{run}{suffix}")), None, "{suffix}");
        }
        assert_eq!(RunId::parse(&format!("{}ʩ", &run[..29])), None);
        assert_eq!(JobId::parse(&format!("{}ʩ", &job[..28])), None);
    }

    fn job() -> JobId {
        JobId::mint(Time::from_secs(1_806_000_000), Slot::from_bits(0x5a3), 0x0123_4567_89ab_cdef)
    }

    #[test]
    fn ids_survive_text_and_carry_their_slot() {
        let id = job();
        assert_eq!(id.to_string(), "job_01mhyzt300ephr0j6hb7h6nwvv");
        assert_eq!(JobId::parse(&id.to_string()), Some(id));
        assert_eq!(id.slot().bits(), 0x5a3);
        let causes = [
            Cause::OneOff,
            Cause::Occurrence(Time::from_secs(1_806_197_400)),
            Cause::Occurrence(Time::from_micros(1_806_197_400_250_000)),
            Cause::Trigger(12_345),
            Cause::Backfill { operation: 7, second: 1_806_197_400 },
            Cause::Rerun(2),
        ];
        for cause in causes {
            let run = RunId::new(id, cause);
            assert_eq!(run.cause(), cause);
            assert_eq!(RunId::parse(&run.to_string()), Some(run), "{run}");
            assert!(!run.to_string().contains('.'));
        }
    }

    #[test]
    fn letters_that_people_mistake_are_read_as_they_are_meant() {
        let id = job().to_string();
        let spoken = format!("job_{}", id[4..].to_uppercase().replace('0', "O").replace('1', "L"));
        assert_ne!(spoken[4..].to_lowercase(), id[4..]);
        assert_eq!(JobId::parse(&spoken), Some(job()));
        assert_eq!(JobId::parse(&spoken.replace('L', "i").replace('O', "o")), Some(job()));
        assert_eq!(JobId::parse(&spoken.replace('O', "u")), None);
    }

    #[test]
    fn an_occurrence_reads_as_its_utc_instant() {
        let run = RunId::new(job(), Cause::Occurrence(Time::from_secs(1_806_195_600)));
        assert!(run.to_string().ends_with("_20270328T010000Z"), "{run}");
    }

    #[test]
    fn rubbish_is_no_id() {
        let good = job().to_string();
        for bad in ["", "job_", "run_x", "job_zzzzzzzzzzzzzzzzzzzzzzzzzz", &good[1..], "job_é"] {
            assert_eq!(JobId::parse(bad), None, "{bad}");
        }
        let run = format!("run_{}", &good[4..]);
        for bad in ["_", "_t123", "_20270328T010000", "_20271328T010000Z", "_r", "_r01", "_x"] {
            assert_eq!(RunId::parse(&format!("{run}{bad}")), None, "{bad}");
        }
    }

    #[test]
    fn civil_dates_round_trip() {
        for days in (-800_000..3_000_000).step_by(97) {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, m, d), days);
        }
        assert_eq!(civil_from_days(0), (1970, 1, 1));
    }
}
