//! `--config duly.toml`: the flags of `duly serve` as a file. A variable of the environment counts more
//! than the file, a flag more than both. Names are those of the flags.

use crate::failure::{EXIT_USAGE, Failure};
use crate::outbox_source;
use clap::Command;
use std::path::Path;

/// The command line with the file's values as defaults.
pub fn with_file(command: Command, path: &Path) -> Result<Command, Failure> {
    let refused = |message: String| Failure {
        exit: EXIT_USAGE,
        message,
        help: "duly serve --help".to_string(),
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| refused(format!("the file {shown} cannot be read: {error}")))?;
    let table: toml::Table =
        text.parse().map_err(|error| refused(format!("the file {shown} is not TOML: {error}")))?;
    let serve = command.find_subcommand("serve");
    let known: Vec<String> = serve
        .into_iter()
        .flat_map(Command::get_arguments)
        .filter_map(|arg| arg.get_long())
        .filter(|name| !["config", "help", "version"].contains(name))
        .map(str::to_string)
        .collect();
    let (mut values, mut outboxes) = (Vec::new(), Vec::new());
    for (name, value) in table {
        let name = name.replace('_', "-");
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(refused(format!("the file {shown} has no setting {name}; known: {known}")));
        }
        if name == "outbox" {
            outboxes = tables(value).map_err(|why| refused(format!("the file {shown}: {why}")))?;
            continue;
        }
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            _ => {
                let message = format!("the file {shown}: {name} is a string, a number or a flag");
                return Err(refused(message));
            }
        };
        values.push((name, value));
    }
    Ok(command.mut_subcommand("serve", move |mut serve| {
        for (name, value) in values {
            serve = serve.mut_arg(name.replace('-', "_"), |arg| arg.default_value(value));
        }
        if !outboxes.is_empty() {
            serve = serve.mut_arg("outbox", |arg| arg.default_values(outboxes));
        }
        serve
    }))
}

/// Each `[[outbox]]`, as the flag says it.
fn tables(value: toml::Value) -> Result<Vec<String>, String> {
    let toml::Value::Array(list) = value else {
        return Err("outbox is a list of tables: [[outbox]] with name and database".to_string());
    };
    let each = list.iter().enumerate().map(|(at, one)| {
        let table = one.as_table().ok_or("it is not a table: write [[outbox]]".to_string());
        table.and_then(outbox_source::of_table).map_err(|why| format!("outbox {}: {why}", at + 1))
    });
    each.collect()
}
