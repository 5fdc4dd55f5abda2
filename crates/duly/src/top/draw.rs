//! A frame as lines of text, cut to the terminal. Nothing here writes to it.

use super::frame::{Frame, RATES};
use super::screen::Size;
use crate::limits::TOP_QUEUES;
use crate::show;

pub fn page(frame: &Frame, size: Size) -> String {
    let mut lines = vec![
        format!("duly {} at {}  {}  {}", frame.version, frame.address, frame.health, frame.at),
        frame
            .trouble
            .as_ref()
            .map(|why| format!("! {why}; what follows is old"))
            .unwrap_or_default(),
    ];
    lines.push(format!("{:<12}{:>12}{:>14}", "", "PER SECOND", "SINCE START"));
    for (name, _) in RATES {
        if let Some(rate) = frame.rates.get(name) {
            lines.push(format!("{name:<12}{:>12.1}{:>14}", rate.per_second, rate.total));
        }
    }
    lines.push(String::new());
    lines.push(skew(frame));
    lines.push(String::new());
    lines.extend(queues(frame));
    lines.push(String::new());
    lines.extend(failing(frame));
    lines.push(String::new());
    lines.extend(next(frame));
    let mut text = String::new();
    for line in lines.iter().take(size.rows) {
        text.extend(line.trim_end().chars().take(size.columns));
        text.push('\n');
    }
    text
}

fn skew(frame: &Frame) -> String {
    let Some(skew) = frame.skew else { return "late by     nothing fired".to_string() };
    let bound = |at: Option<f64>| match at {
        Some(ms) => format!("<= {ms} ms"),
        None => "> 60 s".to_string(),
    };
    let (half, most) = (bound(skew.p50_ms), bound(skew.p99_ms));
    format!("late by     half {half}, 99 % {most} (of {} runs)", skew.runs)
}

fn queues(frame: &Frame) -> Vec<String> {
    let line = |cells: [&str; 7]| {
        let [name, ready, running, retrying, dead, due, oldest] = cells;
        format!("{name:<24}{ready:>8}{running:>9}{retrying:>10}{dead:>7}{due:>11}{oldest:>10}")
    };
    let heads = ["QUEUE", "READY", "RUNNING", "RETRYING", "DEAD", "DUE IN 5M", "OLDEST"];
    let mut lines = vec![line(heads)];
    for queue in frame.queues.iter().take(TOP_QUEUES) {
        let cell = |name: &str| show::plain(&queue[name]);
        let oldest = queue["oldest_ready_ms"].as_i64().map(length).unwrap_or_default();
        let name = match queue["paused"].is_null() {
            true => cell("name"),
            false => format!("{} (paused)", cell("name")),
        };
        let (ready, running) = (cell("ready"), cell("running"));
        let (retrying, dead, due) = (cell("retrying"), cell("dead"), cell("due_next_5m"));
        lines.push(line([&name, &ready, &running, &retrying, &dead, &due, &oldest]));
    }
    lines
}

fn failing(frame: &Frame) -> Vec<String> {
    let mut lines =
        vec![format!("{:<32}{:>9}{:>6}  LAST ERROR", "FAILING JOB", "RETRYING", "DEAD")];
    for one in &frame.failing {
        let job = one.name.as_ref().unwrap_or(&one.job_id);
        lines.push(format!("{job:<32}{:>9}{:>6}  {}", one.retrying, one.dead, one.error));
    }
    if frame.failing.is_empty() {
        lines.push("none".to_string());
    }
    lines
}

fn next(frame: &Frame) -> Vec<String> {
    let of = if frame.next_complete { "" } else { " (of the newest jobs)" };
    let mut lines = vec![format!("{:<12}{:<28}JOB{of}", "NEXT IN", "AT")];
    for one in &frame.next {
        let job = one.name.as_ref().unwrap_or(&one.job_id);
        lines.push(format!("{:<12}{:<28}{job}", length(one.in_ms), one.due_at));
    }
    if frame.next.is_empty() {
        lines.push("nothing is planned".to_string());
    }
    lines
}

/// The two largest units are enough for a glance.
fn length(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    match seconds {
        0 => format!("{}ms", ms.max(0)),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::Look;
    use super::*;

    #[test]
    fn a_page_fits_the_terminal() {
        let look = Look { address: "http://127.0.0.1:7070".into(), ..Look::default() };
        let frame = Frame::between(&look, &look);
        let text = page(&frame, Size { rows: 5, columns: 20 });
        assert_eq!(text.lines().count(), 5);
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
        let whole = page(&frame, Size::UNBOUNDED);
        for word in ["fired", "QUEUE", "FAILING JOB", "NEXT IN", "nothing fired"] {
            assert!(whole.contains(word), "{word}: {whole}");
        }
    }

    #[test]
    fn lengths_are_short() {
        let said = [0, 999, 59_999, 61_000, 3_700_000, 90_000_000, -5].map(length);
        assert_eq!(said, ["0ms", "999ms", "59s", "1m01s", "1h01m", "1d01h", "0ms"]);
    }
}
