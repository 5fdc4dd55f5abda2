//! Where `duly serve` takes jobs from: `--outbox NAME=URL`, or `[[outbox]]` in the file of `--config`.
//!
//! The URL is a PostgreSQL's, with two parameters of our own behind the `?`: `outbox_schema` and
//! `outbox_namespace`.

use crate::failure::{EXIT_USAGE, Failure};
use crate::stores;
use http_api::Api;
use http_api::limits::OUTBOXES_MAX;
use http_api::outbox::{Source, State, follow};
use node::Tasks;
use node::namespaces::{DEFAULT_NAME, is_name};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use store_postgres::outbox::{SCHEMA, Schema};

const SCHEMA_PARAM: &str = "outbox_schema";
const NAMESPACE_PARAM: &str = "outbox_namespace";

/// What one `--outbox` says.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    pub name: String,
    /// Perhaps with a password in it.
    pub database: String,
    pub schema: Schema,
    pub namespace: String,
}

impl fmt::Debug for Given {
    /// Without the address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("name", &self.name).finish_non_exhaustive()
    }
}

impl FromStr for Given {
    type Err = String;

    /// What is refused is told without the text: it may have a password in it.
    fn from_str(text: &str) -> Result<Given, String> {
        let expected = "an outbox is NAME=postgres://user@host/database";
        let (name, url) = text.split_once('=').ok_or(expected)?;
        if !is_name(name) {
            return Err(format!(
                "{expected}; the name has 1 to 63 lower-case letters, digits, - and _"
            ));
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(expected.to_string());
        }
        let (head, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut namespace) = (SCHEMA.to_string(), DEFAULT_NAME.to_string());
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((SCHEMA_PARAM, value)) => schema = value.to_string(),
                Some((NAMESPACE_PARAM, value)) => namespace = value.to_string(),
                _ => others.push(pair),
            }
        }
        let schema = Schema::parse(&schema).map_err(|why| format!("{SCHEMA_PARAM}: {why}"))?;
        if !is_name(&namespace) {
            return Err(format!(
                "{NAMESPACE_PARAM}: a namespace has 1 to 63 lower-case letters, digits, - and _"
            ));
        }
        let database = match others.is_empty() {
            true => head.to_string(),
            false => format!("{head}?{}", others.join("&")),
        };
        Ok(Given { name: name.to_string(), database, schema, namespace })
    }
}

/// The fields of a table `[[outbox]]` as the flag says them.
pub fn of_table(table: &toml::Table) -> Result<String, String> {
    let (mut name, mut database, mut params) = (None, None, Vec::new());
    for (key, value) in table {
        let Some(value) = value.as_str() else { return Err(format!("{key} is a string")) };
        match key.as_str() {
            "name" => name = Some(value),
            "database" => database = Some(value),
            "schema" => params.push(format!("{SCHEMA_PARAM}={value}")),
            "namespace" => params.push(format!("{NAMESPACE_PARAM}={value}")),
            _ => {
                let known = "name, database, schema, namespace";
                return Err(format!("there is no field {key}; known: {known}"));
            }
        }
    }
    let name = name.ok_or("the name is missing")?;
    let database = database.ok_or("the database is missing: postgres://user@host/database")?;
    let join = if database.contains('?') { "&" } else { "?" };
    let params = match params.is_empty() {
        true => String::new(),
        false => format!("{join}{}", params.join("&")),
    };
    let text = format!("{name}={database}{params}");
    text.parse::<Given>().map(|_| text)
}

/// Refused before anything is started.
pub fn check(given: &[Given]) -> Result<Vec<Source>, Failure> {
    let refused = |message: String| Failure {
        exit: EXIT_USAGE,
        message,
        help: "duly serve --outbox orders=postgres://user@host/database".to_string(),
    };
    if given.len() > OUTBOXES_MAX {
        return Err(refused(format!("at most {OUTBOXES_MAX} outboxes are read by one duly")));
    }
    let names: BTreeSet<&str> = given.iter().map(|one| one.name.as_str()).collect();
    if names.len() < given.len() {
        return Err(refused("two outboxes have the same name".to_string()));
    }
    let source = |one: &Given| {
        let outbox = stores::outbox(&one.database, one.schema.clone())
            .map_err(|error| refused(format!("the outbox {}: {error}", one.name)))?;
        Ok(Source { name: one.name.clone(), namespace: one.namespace.clone(), outbox })
    };
    given.iter().map(source).collect()
}

/// From here on jobs are taken, for the life of the process.
pub fn start(api: &Arc<Api>, sources: Vec<Source>, tasks: &Tasks) {
    let states: Vec<Arc<State>> = sources.iter().map(|one| Arc::new(State::of(one))).collect();
    api.takes_from(states.clone());
    for (source, state) in sources.into_iter().zip(states) {
        tasks.start(follow(api.clone(), source, state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_says_all_of_it() {
        let text = "orders=postgres://u:p@h/d?sslmode=require&outbox_schema=ob&outbox_namespace=eu";
        let given: Given = text.parse().expect("one");
        assert_eq!(given.database, "postgres://u:p@h/d?sslmode=require");
        assert_eq!((given.schema.name(), given.namespace.as_str()), ("ob", "eu"));
        let plain: Given = "a=postgres://u@h/d".parse().expect("one");
        assert_eq!((plain.schema.name(), plain.namespace.as_str()), (SCHEMA, DEFAULT_NAME));
        assert!(!format!("{given:?}").contains(":p@"), "{given:?}");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (text, said) in [
            ("postgres://u:hidden@h/d", "NAME=postgres://"),
            ("Orders=postgres://u:hidden@h/d", "lower-case"),
            ("a=mysql://u:hidden@h/d", "NAME=postgres://"),
            ("a=postgres://u:hidden@h/d?outbox_schema=X", "outbox_schema"),
            ("a=postgres://u:hidden@h/d?outbox_namespace=X", "outbox_namespace"),
        ] {
            let words = text.parse::<Given>().expect_err("refused");
            assert!(words.contains(said) && !words.contains("hidden"), "{text}: {words}");
        }
    }

    #[test]
    fn a_table_is_a_flag() {
        let table = |text: &str| of_table(&text.parse().expect("TOML"));
        let all = "name = 'a'\ndatabase = 'postgres://u@h/d?x=1'\nschema = 's'\nnamespace = 'n'";
        let flag = table(all).expect("one");
        assert_eq!(flag, "a=postgres://u@h/d?x=1&outbox_namespace=n&outbox_schema=s");
        for (text, said) in [
            ("name = 'a'", "database is missing"),
            ("database = 'postgres://u@h/d'", "name is missing"),
            ("name = 7", "name is a string"),
            ("nome = 'a'", "no field nome"),
        ] {
            assert!(table(text).expect_err("refused").contains(said), "{text}");
        }
    }
}
