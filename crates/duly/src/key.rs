//! `duly key create|list|revoke`: with a server, or, while none runs, on its data folder. The first key of a
//! server that shall listen elsewhere than on loopback is made on the folder.

use crate::client::Server;
use crate::failure::{EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, Failure};
use crate::{clock, flow_flag, stores};
use clap::{Subcommand, ValueEnum};
use http_api::Scope;
use http_api::key_quota::KeyQuota;
use http_api::keys::{self, Wanted};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::catalog::Changed;
use store::{Backend, StoreError};
use wire::answer::{ApiKey, ApiKeyMade, ApiKeys};

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key; its secret is printed once.
    Create(CreateArgs),
    /// List the keys.
    List(ListArgs),
    /// Revoke a key, at once and for ever.
    Revoke(RevokeArgs),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeArg {
    /// Everything
    Admin,
    /// Make, change and see jobs and runs
    Submit,
    /// See jobs and runs
    Read,
    /// Claim, heartbeat, settle
    Worker,
}

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// What the key may do
    #[arg(long)]
    scope: ScopeArg,
    /// Whose key this is, for people
    #[arg(long)]
    name: Option<String>,
    /// What it may submit at most, such as 50/s; without it as much as its namespace
    #[arg(long, value_name = "RATE", value_parser = flow_flag::key_rate)]
    rate: Option<u32>,
    /// The bytes of that, such as 1MB/s
    #[arg(long, value_name = "RATE", value_parser = flow_flag::key_bytes)]
    bytes: Option<u32>,
    /// So many runs may wait at most, of jobs that are made with it
    #[arg(long, value_name = "N", value_parser = flow_flag::count)]
    waiting: Option<u32>,
    /// So many recurring jobs may be there at most that were made with it
    #[arg(long, value_name = "N", value_parser = flow_flag::count)]
    jobs: Option<u32>,
    /// So often those may fire, such as 600/m; what is more fires later
    #[arg(long, value_name = "RATE", value_parser = flow_flag::key_fires)]
    fires: Option<u32>,
    #[command(flatten)]
    where_: Where,
}

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    where_: Where,
}

#[derive(Debug, clap::Args)]
pub struct RevokeArgs {
    /// The key's id: what stands between the two _
    id: String,
    #[command(flatten)]
    where_: Where,
}

#[derive(Debug, clap::Args)]
struct Where {
    /// Work on this data folder, while no server runs on it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

pub fn run(command: &KeyCommand) -> Result<String, Failure> {
    match command {
        KeyCommand::Create(args) => create(args),
        KeyCommand::List(args) => list(args),
        KeyCommand::Revoke(args) => revoke(args),
    }
}

fn create(args: &CreateArgs) -> Result<String, Failure> {
    let scope = match args.scope {
        ScopeArg::Admin => Scope::Admin,
        ScopeArg::Submit => Scope::Submit,
        ScopeArg::Read => Scope::Read,
        ScopeArg::Worker => Scope::Worker,
    };
    // --namespace: the one that the key is for. Without it: default, or all for an admin.
    let namespace = args.where_.server.namespace.clone();
    if namespace.as_ref().is_some_and(|name| !node::namespaces::is_name(name)) {
        return Err(Failure {
            exit: EXIT_USAGE,
            message: "a namespace has 1 to 63 lower-case letters, digits, - and _".to_string(),
            help: "duly key create --scope submit --namespace team-a".to_string(),
        });
    }
    let made: ApiKeyMade = match &args.where_.data {
        Some(data) => {
            let store = open(data)?;
            let name = args.name.clone();
            let wanted = Wanted { scope, namespace, name, quota: quota(args) };
            let minted = keys::mint(wanted, None, clock::now());
            put(store.as_ref(), &minted.id, &minted.key, None)?;
            ApiKeyMade { key: minted.text, about: http_api::shown(&minted.id, &minted.key) }
        }
        None => {
            let mut body =
                json!({"scope": scope.name(), "namespace": namespace, "name": args.name});
            // By the names that the API has for them, which are those that are kept.
            if let (Some(body), Value::Object(quota)) = (body.as_object_mut(), json!(quota(args))) {
                body.extend(quota);
            }
            read(&args.where_.server.everywhere().post("/v1/api-keys", body.to_string())?)?
        }
    };
    if args.where_.json {
        return Ok(format!("{}\n", json!(made)));
    }
    Ok(format!("{}\nkeep it: it is not shown again\n", made.key))
}

fn quota(args: &CreateArgs) -> KeyQuota {
    KeyQuota {
        submissions_per_s: args.rate,
        bytes_per_s: args.bytes,
        waiting: args.waiting,
        jobs: args.jobs,
        fires_per_min: args.fires,
    }
}

fn list(args: &ListArgs) -> Result<String, Failure> {
    let keys: ApiKeys = match &args.where_.data {
        Some(data) => {
            let store = open(data)?;
            let entries = store.list_entries(&keys::list()).map_err(broken)?;
            let found = entries.iter().filter_map(keys::of_entry);
            ApiKeys { items: found.map(|(id, key)| http_api::shown(&id, &key)).collect() }
        }
        None => read(&args.where_.server.get("/v1/api-keys")?)?,
    };
    if args.where_.json {
        return Ok(format!("{}\n", json!(keys)));
    }
    let mut text = format!(
        "{:14} {:7} {:16} {:20} {:24} REVOKED\n",
        "ID", "SCOPE", "NAMESPACE", "NAME", "CREATED"
    );
    for key in keys.items {
        text.push_str(&line(&key));
    }
    Ok(text)
}

fn line(key: &ApiKey) -> String {
    format!(
        "{:14} {:7} {:16} {:20} {:24} {}\n",
        key.id,
        key.scope,
        key.namespace.as_deref().unwrap_or("(all)"),
        key.name.as_deref().unwrap_or("-"),
        key.created_at,
        key.revoked_at.as_deref().unwrap_or("-"),
    )
}

fn revoke(args: &RevokeArgs) -> Result<String, Failure> {
    // The whole key is taken too: who has only that need not cut it.
    let id = args.id.strip_prefix("duly_").unwrap_or(&args.id);
    let id = id.split('_').next().unwrap_or(id);
    let unknown = || Failure {
        exit: EXIT_NOT_FOUND,
        message: "there is no such key".to_string(),
        help: "duly key list".to_string(),
    };
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(unknown());
    }
    let key: ApiKey = match &args.where_.data {
        Some(data) => {
            let store = open(data)?;
            let entry =
                store.entries(&[keys::place(id)]).map_err(broken)?.into_iter().flatten().next();
            let found = entry.and_then(|entry| Some((entry.rev, keys::of_entry(&entry)?.1)));
            let (rev, mut key) = found.ok_or_else(unknown)?;
            if key.revoked.is_none() {
                key.revoked = Some(clock::now().micros());
                put(store.as_ref(), id, &key, Some(rev))?;
            }
            http_api::shown(id, &key)
        }
        None => read(&args.where_.server.delete(&format!("/v1/api-keys/{id}"))?)?,
    };
    if args.where_.json {
        return Ok(format!("{}\n", json!(key)));
    }
    Ok(format!("revoked {}\n", key.id))
}

fn open(data: &Path) -> Result<Arc<dyn Backend>, Failure> {
    std::fs::create_dir_all(data)
        .map_err(|error| Failure::failed(format!("{} cannot be made: {error}", data.display())))?;
    let opened = stores::open(&stores::Kind::Sqlite, data, None).map_err(|failure| Failure {
        help: "duly key … without --data asks the server that runs".to_string(),
        ..failure
    })?;
    Ok(opened.store)
}

fn put(store: &dyn Backend, id: &str, key: &keys::Key, former: Option<u64>) -> Result<(), Failure> {
    match store.change_entries(&[keys::change(id, key, former)]).map_err(broken)? {
        Changed::Made { .. } => Ok(()),
        Changed::Other { .. } => Err(Failure {
            exit: EXIT_REFUSED,
            message: "somebody else changed this key just now".to_string(),
            help: "duly key list".to_string(),
        }),
    }
}

fn broken(error: StoreError) -> Failure {
    Failure::failed(format!("the store did not answer: {error:?}"))
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|_| Failure::failed("the server's answer is not a key"))
}
