//! Answers as people read them: a table for lists, one field per line for one thing. `--json` prints
//! what the server said.

use crate::failure::Failure;
use serde_json::Value;

pub fn json(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

pub fn parsed(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| Failure::failed("the server's answer is not JSON"))
}

/// One field per line; what is absent is left out.
pub fn fields(text: &str) -> Result<String, Failure> {
    let mut lines = String::new();
    for (name, value) in parsed(text)?.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null => continue,
            Value::Array(list) if list.is_empty() => continue,
            other => plain(other),
        };
        lines.push_str(&format!("{name:16} {shown}\n"));
    }
    Ok(lines)
}

/// A field may stand inside another: `target.http.url`.
pub fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, name| &value[name])
}

/// Control characters do not reach the terminal.
pub fn plain(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// A column: its head, and the fields of which the first that is there is shown.
pub type Column = (&'static str, &'static [&'static str]);

/// The widest cell; longer ones are cut.
const CELL_MAX: usize = 60;

/// The `items` of a list as a table, and how to see more.
pub fn table(text: &str, columns: &[Column], more: &str) -> Result<String, Failure> {
    let value = parsed(text)?;
    let items = value["items"].as_array().cloned().unwrap_or_default();
    let mut rows = vec![columns.iter().map(|(head, _)| head.to_string()).collect::<Vec<_>>()];
    for item in &items {
        rows.push(columns.iter().map(|(_, paths)| cell(item, paths)).collect());
    }
    let mut out = if items.is_empty() { "none\n".to_string() } else { grid(&rows) };
    if let Some(cursor) = value["next_cursor"].as_str() {
        out.push_str(&format!("more: {more} --cursor {cursor}\n"));
    }
    Ok(out)
}

fn cell(item: &Value, paths: &[&str]) -> String {
    let found = paths.iter().map(|path| at(item, path)).find(|value| !value.is_null());
    let text = found.map(plain).unwrap_or_default();
    match text.chars().count() > CELL_MAX {
        true => text.chars().take(CELL_MAX - 1).chain(['…']).collect(),
        false => text,
    }
}

pub fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What may stand in an address.
pub fn checked<'a>(id: &'a str, what: &str) -> Result<&'a str, Failure> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    match !id.is_empty() && id.bytes().all(fine) {
        true => Ok(id),
        false => Err(Failure {
            exit: crate::failure::EXIT_USAGE,
            message: format!("{id:?} is not the id or name of a {what}"),
            help: format!("duly {what} list"),
        }),
    }
}

/// A query from what was given.
pub fn query(pairs: &[(&str, Option<&str>)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if let Some(value) = value {
            text.push(if text.is_empty() { '?' } else { '&' });
            text.push_str(&format!("{name}={}", escaped(value)));
        }
    }
    text
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_a_table_that_says_how_to_go_on() {
        let text = r#"{"items":[{"id":"a","x":{"y":1}},{"id":"bb\u001b[1m"}],"next_cursor":"c"}"#;
        let shown = table(text, &[("ID", &["id"]), ("Y", &["x.y", "z"])], "duly x list");
        let lines: Vec<String> = shown.expect("a table").lines().map(str::to_string).collect();
        assert_eq!(lines, ["ID      Y", "a       1", "bb [1m", "more: duly x list --cursor c"]);
        assert_eq!(table("{\"items\":[]}", &[("ID", &["id"])], "").as_deref(), Ok("none\n"));
    }

    #[test]
    fn what_is_given_becomes_a_query() {
        assert_eq!(
            query(&[("a", None), ("b", Some("1 2")), ("c", Some("ä&"))]),
            "?b=1%202&c=%C3%A4%26"
        );
        assert_eq!(query(&[("a", None)]), "");
    }
}
