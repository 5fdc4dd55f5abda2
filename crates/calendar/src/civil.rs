//! Dates without a zone: days since 1970-01-01 in the proleptic Gregorian calendar.
//!
//! The algorithms are Howard Hinnant's, with years that begin in March so that the leap day comes
//! last. jiff could do this, but its checked types cost more than the whole search for a next day.

pub(crate) const DAY_SECS: i64 = 86_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn month_len(leap: bool, month: u32) -> u32 {
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

pub(crate) fn days_from_date(date: Date) -> i64 {
    let year = if date.month <= 2 { date.year - 1 } else { date.year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month = i64::from((date.month + 9) % 12);
    let day_of_year = (153 * month + 2) / 5 + i64::from(date.day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

pub(crate) fn date_from_days(days: i64) -> Date {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    Date { year: yoe + era * 400 + i64::from(month <= 2), month, day }
}

/// 0 is Sunday. 1970-01-01 was a Thursday.
pub(crate) fn weekday(days: i64) -> u32 {
    (days + 4).rem_euclid(7) as u32
}

/// `2027-03-28`.
pub(crate) fn date_text(days: i64) -> String {
    let date = date_from_days(days);
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// `02:30`, or `02:30:15` where seconds matter.
pub(crate) fn clock_text(second_of_day: i64) -> String {
    let (h, m, s) = (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
    if s == 0 { format!("{h:02}:{m:02}") } else { format!("{h:02}:{m:02}:{s:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree_with_jiff_over_four_centuries() {
        let mut day = jiff::civil::date(1969, 12, 1);
        let mut days = -31;
        while day.year() < 2401 {
            let date = date_from_days(days);
            assert_eq!(
                (date.year, date.month, date.day),
                (i64::from(day.year()), day.month() as u32, day.day() as u32)
            );
            assert_eq!(days_from_date(date), days);
            assert_eq!(weekday(days), day.weekday().to_sunday_zero_offset() as u32);
            assert_eq!(month_len(is_leap(date.year), date.month), day.days_in_month() as u32);
            day = day.tomorrow().unwrap();
            days += 1;
        }
    }
}
