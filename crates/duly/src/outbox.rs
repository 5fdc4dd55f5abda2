//! `duly outbox …`: jobs that are submitted inside your own PostgreSQL transactions.

use crate::failure::{EXIT_USAGE, Failure};
use crate::job::Out;
use crate::show::Column;
use crate::stores;
use clap::Subcommand;
use store_postgres::outbox::{Grants, SCHEMA, Schema, install_sql};

#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// Make the outbox in your database; changes nothing where it is.
    Install(InstallArgs),
    /// Show what waits in the outboxes that the server reads.
    Status(StatusArgs),
}

#[derive(clap::Args)]
pub struct InstallArgs {
    /// Your database, as postgres://user@host/database; the user owns what is made
    #[arg(long, value_name = "URL", env = "DULY_OUTBOX_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// The schema that is made; it is the outbox's alone
    #[arg(long, value_name = "NAME", default_value = SCHEMA, value_parser = Schema::parse)]
    schema: Schema,
    /// A role whose transactions submit jobs; may be given several times
    #[arg(long, value_name = "ROLE")]
    writer: Vec<String>,
    /// A role that duly reads as; may be given several times
    #[arg(long, value_name = "ROLE")]
    reader: Vec<String>,
    /// Print the SQL and run nothing
    #[arg(long)]
    print: bool,
}

impl std::fmt::Debug for InstallArgs {
    /// Without the address: it may have a password in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstallArgs").field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    out: Out,
}

const SOURCES: [Column; 8] = [
    ("NAME", &["name"]),
    ("NAMESPACE", &["namespace"]),
    ("NODE", &["node"]),
    ("WAITING", &["waiting"]),
    ("OLDEST MS", &["oldest_ms"]),
    ("REFUSED", &["refused"]),
    ("DELIVERED", &["delivered_total"]),
    ("LAST ERROR", &["last_error"]),
];

pub fn run(command: &OutboxCommand) -> Result<String, Failure> {
    match command {
        OutboxCommand::Install(args) => install(args),
        OutboxCommand::Status(args) => {
            let text = args.out.server.get("/v1/outbox")?;
            args.out.list(&text, &SOURCES, "duly outbox status")
        }
    }
}

fn install(args: &InstallArgs) -> Result<String, Failure> {
    let grants = Grants { writers: args.writer.clone(), readers: args.reader.clone() };
    if args.print {
        return Ok(install_sql(&args.schema, &grants));
    }
    let help = "duly outbox install --database postgres://user@host/database".to_string();
    let Some(database) = &args.database else {
        let message = "--database says where the outbox is made; --print only shows the SQL";
        return Err(Failure { exit: EXIT_USAGE, message: message.to_string(), help });
    };
    stores::install_outbox(database, &args.schema, &grants).map_err(|error| Failure {
        help,
        ..Failure::failed(format!("the outbox cannot be made: {error}"))
    })?;
    let schema = args.schema.name();
    Ok(format!(
        "the outbox is in the schema {schema}\n\
         submit in a transaction:  SELECT {schema}.submit('{{\"target\": …}}')\n\
         read it:                  duly serve --outbox NAME=URL\n"
    ))
}
