//! What a queue allows, as columns: `rev`, the queue's `max_running` and rate (three columns), the same
//! four of its groups, the weights as text, and the service level.

use super::columns::{Cols, Raw};
use model::{QueueRow, Rate, Span, Text};
use std::collections::BTreeMap;

/// From `rev` on.
pub fn queue<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<QueueRow, R::Fault> {
    let rev = cols.num()?;
    let (max_running, rate) = limits(cols)?;
    let (group_max_running, group_rate) = limits(cols)?;
    let text = cols.text()?;
    let weights = weights_of(&text).ok_or_else(|| cols.odd())?;
    let start_within = cols.opt_int()?.map(Span::from_micros);
    Ok(QueueRow { rev, max_running, rate, group_max_running, group_rate, weights, start_within })
}

fn limits<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<(Option<u32>, Option<Rate>), R::Fault> {
    let max_running = narrow(cols)?;
    let starts = narrow(cols)?;
    let per = cols.opt_int()?;
    let burst = narrow(cols)?;
    let rate = match (starts, per, burst) {
        (Some(starts), Some(per), Some(burst)) if starts > 0 && per > 0 && burst > 0 => {
            Some(Rate { starts, per: Span::from_micros(per), burst })
        }
        (None, None, None) => None,
        _ => return Err(cols.odd()),
    };
    Ok((max_running, rate))
}

fn narrow<'a, R: Raw<'a>>(cols: &mut Cols<R>) -> Result<Option<u32>, R::Fault> {
    match cols.opt_int()? {
        Some(value) => u32::try_from(value).map(Some).map_err(|_| cols.odd()),
        None => Ok(None),
    }
}

/// A rate as columns: starts, microseconds, burst.
pub fn rate_columns(rate: Option<Rate>) -> (Option<i64>, Option<i64>, Option<i64>) {
    (
        rate.map(|rate| rate.starts.into()),
        rate.map(|rate| rate.per.micros()),
        rate.map(|rate| rate.burst.into()),
    )
}

/// For each group `weight bytes group`, with a line's end between: groups are any text, so they are read
/// by their length.
pub fn weights_text(weights: &BTreeMap<Text, u32>) -> String {
    let one = |(group, weight): (&Text, &u32)| format!("{weight} {} {group}", group.len());
    weights.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn weights_of(mut text: &str) -> Option<BTreeMap<Text, u32>> {
    let mut weights = BTreeMap::new();
    while !text.is_empty() {
        let (weight, rest) = text.split_once(' ')?;
        let (bytes, rest) = rest.split_once(' ')?;
        let bytes: usize = bytes.parse().ok()?;
        weights.insert(Text::from(rest.get(..bytes)?), weight.parse().ok()?);
        let rest = rest.get(bytes..)?;
        text = rest.strip_prefix('\n').or_else(|| rest.is_empty().then_some(rest))?;
    }
    Some(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_groups_with_any_name_come_back() {
        let weights: BTreeMap<Text, u32> =
            [("a", 1), ("two words\n3 1 x", 7), ("", 2), ("zürich", 100)]
                .map(|(group, weight)| (Text::from(group), weight))
                .into();
        assert_eq!(weights_of(&weights_text(&weights)), Some(weights));
        assert_eq!(weights_of(""), Some(BTreeMap::new()));
        for odd in ["1", "1 2", "1 2 a", "1 1 ab", "x 1 a", "1 1 a\n2"] {
            assert_eq!(weights_of(odd), None, "{odd}");
        }
    }
}
