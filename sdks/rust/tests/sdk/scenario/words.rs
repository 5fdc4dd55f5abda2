//! What steps are written with.

use serde_json::Value;
use std::time::Duration;

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

pub fn number<T: TryFrom<u64>>(value: &Value) -> T {
    value.as_u64().and_then(|number| T::try_from(number).ok()).expect("a number that fits")
}

pub fn pick(said: &Value, names: &[&str]) -> Value {
    let found = names.iter().filter_map(|name| Some((name.to_string(), said.get(*name)?.clone())));
    Value::Object(found.collect())
}

/// The lengths that scenarios use.
pub fn length(value: &Value) -> Duration {
    let text = text(value);
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap());
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        other => panic!("{other} is no unit"),
    };
    unit * digits.parse::<u32>().unwrap()
}
