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

/// `duly top` asks for so many unfinished jobs at once, so many times: a page of the largest payloads
/// still fits an answer, and a glance does not cost a server its afternoon.
pub const TOP_JOBS_PAGE: usize = 100;
pub const TOP_JOBS_PAGES: usize = 5;

/// Runs that failed of which `duly top` makes its list of failing jobs.
pub const TOP_RUNS: usize = 200;

/// Lines of each list: what fits a terminal.
pub const TOP_QUEUES: usize = 10;
pub const TOP_FAILING: usize = 8;
pub const TOP_NEXT: usize = 8;

/// Attempts under way may take so long to finish when the process is told to stop, at most.
pub const GRACE_MAX: Span = Span::from_secs(3_600);

/// The shortest and the longest window and pause of a breaker.
pub const BREAKER_MIN: Span = Span::from_millis(100);
pub const BREAKER_MAX: Span = Span::from_secs(3_600);
