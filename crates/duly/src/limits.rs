//! Every bound of the command line, named, each with its reason.

use model::Span;

/// How many instants one preview shows. Enough for a year of a job that runs three times a day;
/// a program that wants more asks again with `--after` set to the last one.
pub const PREVIEW_COUNT_MAX: u32 = 1_000;

/// How many a person wants to see at once.
pub const PREVIEW_COUNT_DEFAULT: u32 = 10;

/// Clock changes are listed this far ahead: two years, whether or not one of them is a leap year.
/// Farther ahead governments have not decided yet.
pub const DST_DATES_AHEAD: Span = Span::from_secs(731 * 86_400);

/// How much of a refused text is shown around the column. Longer ones are cut on both sides.
pub const EXCERPT_CHARS: usize = 60;
