//! English for the dates: "on weekdays", "on the last day of the month", "on Fridays in May".

use crate::days::{DayFields, DayRule};
use crate::limits::{YEAR_MAX, YEAR_MIN};
use crate::words_set::{Shape, elements, join, list, list_of, ordinal, shape};

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const ALL_DAYS: u64 = 0xffff_fffe;
const ALL_MONTHS: u64 = 0x1ffe;
const ALL_WEEKDAYS: u64 = 0x7f;

/// Empty for every day.
pub(crate) fn date_words(fields: &DayFields) -> String {
    let any_day = fields.days == ALL_DAYS;
    let any_weekday = fields.weekdays == ALL_WEEKDAYS;
    let days = days(fields);
    let weekdays = weekdays(fields);
    let words = match (any_day, any_weekday, fields.both) {
        (true, true, _) | (true, _, false) | (_, true, false) => String::new(),
        (true, false, true) => format!(" on {weekdays}"),
        (false, true, true) => format!(" on {days}"),
        (false, false, false) => format!(" on {days} or on {weekdays}"),
        (false, false, true) => format!(" on {days}, only on {weekdays}"),
    };
    words_in_months(words, fields, !any_day && !any_weekday) + &years(fields)
}

/// Puts the months into the words: "of the month" becomes theirs; other days get "in May".
fn words_in_months(words: String, fields: &DayFields, both_kinds: bool) -> String {
    if fields.months == ALL_MONTHS {
        return words;
    }
    let names = list(fields.months, |n| MONTHS[(n.max(1) as usize - 1) % 12].to_owned());
    let (of, inside) = match shape(fields.months >> 1, 12) {
        Shape::Run { .. } => (format!("each month from {names}"), format!("from {names}")),
        _ => (names.clone(), format!("in {names}")),
    };
    let open = !words.contains("the month");
    let words = words.replace("the month", &of);
    // "on day 1 of January or on Mondays" would leave the Mondays of other months open.
    if open || (both_kinds && !fields.both && !words.ends_with(&of)) {
        return format!("{words} {inside}");
    }
    words
}

fn days(fields: &DayFields) -> String {
    let mut words = Vec::new();
    match fields.days.count_ones() {
        0 => {}
        1 => words.push(format!("day {} of the month", fields.days.trailing_zeros())),
        _ => words.push(format!("days {} of the month", list(fields.days, |n| n.to_string()))),
    }
    words.extend(fields.day_rules.iter().map(|rule| rule_words(*rule)));
    join(&words, "and on")
}

fn weekdays(fields: &DayFields) -> String {
    let mut words = Vec::new();
    match fields.weekdays {
        0 => {}
        0b011_1110 => words.push("weekdays".to_owned()),
        0b100_0001 => words.push("weekends".to_owned()),
        set => {
            let mut days = elements(set);
            // A week is read from Monday on.
            days.sort_by_key(|day| (day + 6) % 7);
            let names: Vec<String> =
                days.iter().map(|d| format!("{}s", WEEKDAYS[*d as usize])).collect();
            words.push(join(&names, "and"));
        }
    }
    words.extend(fields.weekday_rules.iter().map(|rule| rule_words(*rule)));
    join(&words, "and on")
}

fn rule_words(rule: DayRule) -> String {
    let before = |n: u32| match n {
        0 => "the last day of the month".to_owned(),
        1 => "the day before the last day of the month".to_owned(),
        n => format!("the day {n} days before the last day of the month"),
    };
    let weekday = |n: u32| WEEKDAYS[n as usize % 7];
    match rule {
        DayRule::Last { before: n } => before(n),
        DayRule::NearestWeekday { day } => format!("the weekday nearest to day {day} of the month"),
        DayRule::LastWeekday { before: 0 } => "the last weekday of the month".to_owned(),
        DayRule::LastWeekday { before: n } => format!("the weekday nearest to {}", before(n)),
        DayRule::Nth { weekday: day, nth } => {
            format!("the {} {} of the month", ordinal(nth), weekday(day))
        }
        DayRule::LastOf { weekday: day } => format!("the last {} of the month", weekday(day)),
    }
}

fn years(fields: &DayFields) -> String {
    let Some(years) = fields.years else { return String::new() };
    let named: Vec<u32> =
        (YEAR_MIN..=YEAR_MAX).filter(|year| years.has(*year)).map(|year| year as u32).collect();
    if named.len() as i64 == YEAR_MAX - YEAR_MIN + 1 {
        return format!(" until {YEAR_MAX}");
    }
    format!(" in {}", list_of(&named, |year| year.to_string()))
}
