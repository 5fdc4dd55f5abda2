//! English for sets of numbers: lists, ranges, even steps.

/// "a", "a and b", "a, b and c".
pub(crate) fn join<S: AsRef<str>>(words: &[S], last: &str) -> String {
    let mut text = String::new();
    for (i, word) in words.iter().enumerate() {
        if i > 0 {
            text.push_str(&if i + 1 == words.len() {
                format!(" {last} ")
            } else {
                ", ".to_owned()
            });
        }
        text.push_str(word.as_ref());
    }
    text
}

pub(crate) fn elements(set: u64) -> Vec<u32> {
    (0..64).filter(|n| set >> n & 1 == 1).collect()
}

/// The shape of a set of numbers on a dial of `size` numbers that starts at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    All,
    One(u32),
    /// Every `step` from `from` on, evenly over the end of the dial.
    Even {
        from: u32,
        step: u32,
    },
    /// Three or more in a row.
    Run {
        from: u32,
        to: u32,
    },
    Other,
}

pub(crate) fn shape(set: u64, size: u32) -> Shape {
    let all = elements(set);
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Shape::Other };
    let n = all.len() as u32;
    if n == size {
        Shape::All
    } else if n == 1 {
        Shape::One(*first)
    } else if n >= 3 && last - first + 1 == n {
        Shape::Run { from: *first, to: *last }
    } else if size.is_multiple_of(n) && all.windows(2).all(|w| w[1] - w[0] == size / n) && n >= 2 {
        Shape::Even { from: *first, step: size / n }
    } else {
        Shape::Other
    }
}

/// Numbers as a list in which three or more in a row become "2 to 5".
pub(crate) fn list(set: u64, name: impl Fn(u32) -> String) -> String {
    list_of(&elements(set), name)
}

/// The same for numbers in order.
pub(crate) fn list_of(all: &[u32], name: impl Fn(u32) -> String) -> String {
    let words: Vec<String> = all
        .chunk_by(|a, b| a + 1 == *b)
        .flat_map(|row| match row {
            [first, _, .., last] => vec![format!("{} to {}", name(*first), name(*last))],
            few => few.iter().map(|n| name(*n)).collect(),
        })
        .collect();
    join(&words, "and")
}

pub(crate) fn ordinal(n: u32) -> String {
    let end = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{end}")
}
