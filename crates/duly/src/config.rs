//! `--config duly.toml`: the flags of `duly serve` as a file. A variable of the environment counts more
//! than the file, a flag more than both. Names are those of the flags; what begins alike may stand in a
//! table: `[breaker] window = "1m"` is `breaker-window = "1m"`. Flags that may be given several times, each
//! for something with a name, are tables of tables: `[quotas.team-a] submissions = "100/s"` is
//! `--quota team-a,submissions=100/s`. Outboxes are a list of tables: `[[outbox]] name = "shop"`.

use crate::failure::{EXIT_USAGE, Failure};
use crate::outbox_source;
use clap::Command;
use std::path::Path;

/// Tables of tables: their name, and the flag that each of them is.
const LISTS: [(&str, &str); 2] = [("quotas", "quota"), ("destinations", "destination")];

/// The settings of tables under their whole names.
fn flat(table: toml::Table) -> Result<Vec<(String, toml::Value)>, String> {
    let mut all = Vec::new();
    for (name, value) in table {
        let list = LISTS.iter().find(|(table, _)| *table == name);
        match (value, list) {
            (toml::Value::Table(inner), Some((_, flag))) => {
                let each = inner.into_iter().map(|(whose, value)| one_of(&name, &whose, value));
                let each = each.collect::<Result<Vec<String>, String>>()?;
                let each = each.into_iter().map(toml::Value::String).collect();
                all.push((flag.to_string(), toml::Value::Array(each)));
            }
            (toml::Value::Table(inner), None) => {
                all.extend(
                    inner.into_iter().map(|(last, value)| (format!("{name}-{last}"), value)),
                );
            }
            (value, _) => all.push((name, value)),
        }
    }
    Ok(all)
}

/// A table as the text of its flag.
fn one_of(name: &str, whose: &str, value: toml::Value) -> Result<String, String> {
    let toml::Value::Table(inner) = value else {
        return Err(format!("{name}.{whose} is a table: [{name}.{whose}]"));
    };
    let mut text = whose.to_string();
    for (what, value) in inner {
        let value = plain(&value).filter(|value| !value.contains([',', ';']));
        let value = value
            .ok_or_else(|| format!("{name}.{whose}: {what} is a string, a number or a flag"))?;
        text.push_str(&format!(",{what}={value}"));
    }
    Ok(text)
}

fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

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
    let mut values = Vec::new();
    for (name, value) in flat(table).map_err(|why| refused(format!("the file {shown}: {why}")))? {
        let name = name.replace('_', "-");
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(refused(format!("the file {shown} has no setting {name}; known: {known}")));
        }
        if name == "outbox" {
            let each = tables(value).map_err(|why| refused(format!("the file {shown}: {why}")))?;
            values.push((name, each));
            continue;
        }
        let value = match &value {
            toml::Value::Array(list) if is_list(&name) => list.iter().filter_map(plain).collect(),
            value => vec![plain(value).ok_or_else(|| {
                refused(format!("the file {shown}: {name} is a string, a number or a flag"))
            })?],
        };
        values.push((name, value));
    }
    Ok(command.mut_subcommand("serve", move |mut serve| {
        for (name, value) in values {
            serve = serve.mut_arg(name.replace('-', "_"), |arg| arg.default_values(value));
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

fn is_list(name: &str) -> bool {
    LISTS.iter().any(|(_, flag)| *flag == name)
}
