//! "Did you mean": the nearest of some known words by edit distance.

/// The nearest word that is near enough to be worth saying, with its distance. Pairs are the word
/// to compare and what to answer.
pub(crate) fn nearest<'a>(
    written: &str,
    known: impl Iterator<Item = (&'a str, &'a str)>,
) -> Option<(usize, &'a str)> {
    let written = written.to_ascii_lowercase();
    let allowed = (written.chars().count() / 3).max(1);
    known
        // The difference in length is a lower bound that costs nothing.
        .filter(|(word, _)| word.len().abs_diff(written.len()) <= allowed)
        .map(|(word, answer)| (distance(&written, &word.to_ascii_lowercase()), answer))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= allowed)
}

/// Levenshtein's distance; a swap of two neighbours counts as one (people type that).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    for (i, ca) in a.chars().enumerate() {
        let mut new = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (row[j] + usize::from(ca != *cb)).min(row[j + 1] + 1).min(new[j] + 1);
            if j > 0 && last == Some(*cb) && b[j - 1] == ca {
                best = best.min(before[j - 1] + 1);
            }
            new.push(best);
        }
        before = std::mem::replace(&mut row, new);
        last = Some(ca);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_known() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("yrok", "york"), 1);
        assert_eq!(distance("mom", "mon"), 1);
    }
}
