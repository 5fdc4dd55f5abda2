//! What a user's database needs for an outbox: one schema, made by SQL that a person can read first.

use super::Schema;
use crate::address::Address;
use crate::conn::Conn;
use crate::error::OpenError;
use crate::limits::MIGRATE_WAIT;

/// Written for the schema of this name; for another the name is replaced.
const SQL: &str = include_str!("install.sql");
const NAME: &str = super::SCHEMA;

/// Who may do what, besides the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Roles whose transactions submit jobs.
    pub writers: Vec<String>,
    /// Roles that duly reads as.
    pub readers: Vec<String>,
}

/// All statements, in one transaction.
pub fn install_sql(schema: &Schema, grants: &Grants) -> String {
    let mut sql = format!("BEGIN;\n{SQL}");
    for role in &grants.writers {
        let role = quoted(role);
        sql.push_str(&format!(
            "GRANT USAGE ON SCHEMA {NAME} TO {role};\n\
             GRANT EXECUTE ON FUNCTION {NAME}.submit(text, boolean), {NAME}.submit(json, boolean), \
             {NAME}.submit(jsonb, boolean) TO {role};\n"
        ));
    }
    for role in &grants.readers {
        let role = quoted(role);
        sql.push_str(&format!(
            "GRANT USAGE ON SCHEMA {NAME} TO {role};\n\
             GRANT SELECT ON {NAME}.meta, {NAME}.waiting_id_seq TO {role};\n\
             GRANT SELECT, DELETE ON {NAME}.waiting TO {role};\n\
             GRANT SELECT, INSERT ON {NAME}.refused TO {role};\n"
        ));
    }
    sql.push_str("COMMIT;\n");
    if schema.0 == NAME { sql } else { sql.replace(NAME, &schema.0) }
}

/// A name as SQL reads it, whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Makes the outbox, or changes nothing where it is.
pub fn install(address: &str, schema: &Schema, grants: &Grants) -> Result<(), OpenError> {
    let address = Address::parse(address)?;
    let mut conn = Conn::open(&address, MIGRATE_WAIT)?;
    conn.run(&install_sql(schema, grants))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_name_that_was_chosen() {
        let schema = Schema::parse("orders_outbox").expect("a name");
        let grants = Grants { writers: vec!["a\"b".into()], readers: vec!["duly".into()] };
        let sql = install_sql(&schema, &grants);
        assert!(!sql.contains(NAME), "a place was left with the usual name");
        assert!(sql.contains("CREATE SCHEMA IF NOT EXISTS orders_outbox;"));
        assert!(sql.contains("USAGE ON SCHEMA orders_outbox TO \"a\"\"b\""), "{sql}");
        assert!(sql.contains("DELETE ON orders_outbox.waiting TO \"duly\""), "{sql}");
        let plain = install_sql(&Schema::default(), &Grants::default());
        assert!(!plain.contains("GRANT"), "nobody was named");
    }
}
