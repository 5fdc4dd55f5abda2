//! `duly secret`: the keys that sign webhooks, seen and rotated. Asks the server; with `--data` it
//! reads and writes the data folder itself, and a running server notices within a second.

use crate::client::Server;
use crate::clock;
use crate::failure::{EXIT_REFUSED, Failure};
use crate::vault::Vault;
use http_api::secrets::{Rotation, RotationRefused, SigningSecret, SigningSecrets};
use model::{Namespace, Span};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, clap::Subcommand)]
pub enum SecretCommand {
    /// Show the secrets that sign now, the newest first.
    Show(Args),
    /// Make a new secret. Both sign while they overlap.
    Rotate(RotateArgs),
}

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: Server,
    /// The data folder itself, instead of a server
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub struct RotateArgs {
    #[command(flatten)]
    args: Args,
    /// How long the old ones go on signing beside the new one; 0s ends them now
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    overlap: String,
}

pub fn run(command: &SecretCommand) -> Result<String, Failure> {
    match command {
        SecretCommand::Show(args) => show(args),
        SecretCommand::Rotate(rotate) => {
            let overlap = wire::duration::parse(&rotate.overlap).map_err(|error| {
                let help = "duly secret rotate --overlap 24h".to_string();
                Failure { exit: 2, help, ..Failure::failed(format!("--overlap: {error}")) }
            })?;
            match &rotate.args.data {
                None => {
                    let body = json!({"overlap": rotate.overlap}).to_string();
                    let answer = rotate.args.server.post("/v1/signing-secrets/rotate", body)?;
                    print(&rotate.args, &answer)
                }
                Some(data) => {
                    let vault = Vault::look(data)?;
                    let rotation = Rotation { overlap: Span::from_micros(overlap), key: None };
                    vault.rotate_now(Namespace(0), &rotation, clock::now()).map_err(refused)?;
                    show(&rotate.args)
                }
            }
        }
    }
}

fn show(args: &Args) -> Result<String, Failure> {
    let answer = match &args.data {
        None => args.server.get("/v1/signing-secrets")?,
        Some(data) => {
            let list = Vault::look(data)?.list(Namespace(0), clock::now());
            let list: Vec<SigningSecret> = list.map_err(Failure::failed)?;
            let items = list.iter().map(SigningSecret::wire).collect();
            serde_json::to_string(&wire::webhook::SigningSecrets { items })
                .map_err(|error| Failure::failed(error.to_string()))?
        }
    };
    print(args, &answer)
}

fn print(args: &Args, answer: &str) -> Result<String, Failure> {
    let value: Value = serde_json::from_str(answer)
        .map_err(|error| Failure::failed(format!("the answer cannot be read: {error}")))?;
    if args.json {
        return Ok(format!("{answer}\n"));
    }
    let text = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let mut out = format!("{:<20}  {:<24}  {:<24}  {}\n", "ID", "CREATED", "SIGNS UNTIL", "SECRET");
    for one in value["items"].as_array().into_iter().flatten() {
        let cells = ["id", "created_at", "expires_at", "secret"].map(|name| text(&one[name]));
        let [id, created, expires, secret] = cells;
        out.push_str(&format!("{id:<20}  {created:<24}  {expires:<24}  {secret}\n"));
    }
    Ok(out)
}

fn refused(why: RotationRefused) -> Failure {
    let help = "duly secret show".to_string();
    Failure { exit: EXIT_REFUSED, help, ..Failure::failed(why.to_string()) }
}
