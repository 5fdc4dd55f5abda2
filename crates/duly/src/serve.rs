//! `duly serve`: the store, the node, the executor and the HTTP interface in one process, and their
//! orderly end.

use crate::destinations::Known;
use crate::egress::Egress;
use crate::failure::{EXIT_REFUSED, Failure};
use crate::flow::Flow;
use crate::joining::{self, Role};
use crate::target_test::Tester;
use crate::vault::{self, Vault};
use crate::{clock, flag, log, outbox_source, stores};
use executor::{Commands, Destinations, Executor, Options, Whose};
use http_api::tls::Tls;
use http_api::{Api, Bounds, routes, serve};
use model::Span;
use node::clock::BootClock;
use node::{Node, NodeHandle, Retention, Tasks, View, crash};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// How often the certificate's files are looked at.
const TLS_LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long it takes until every other node knows that the shards have moved.
const LINGER: Duration = Duration::from_millis(1_500);
/// How often the signing secrets that nodes share are looked at.
const SECRETS_EVERY: Duration = Duration::from_secs(5);
/// Other nodes get so long to take the shards of a process that is told to stop.
const GIVE_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder that holds everything
    #[arg(long, value_name = "DIR", env = "DULY_DATA", default_value = "./duly-data")]
    data: PathBuf,
    /// Where to listen; without keys on loopback only
    #[arg(long, value_name = "ADDRESS", env = "DULY_LISTEN", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Where jobs are kept: sqlite (a file in the data folder), memory (gone with the process), or
    /// a database as postgres://user@host/database
    #[arg(long, env = "DULY_STORE", default_value = stores::DEFAULT)]
    store: stores::Kind,
    /// Serve HTTPS with this certificate (PEM, the chain in one file)
    #[arg(long, value_name = "FILE", env = "DULY_TLS_CERT", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", env = "DULY_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Log lines for people or for programs, on standard error
    #[arg(long, value_name = "FORM", env = "DULY_LOG", default_value = "human")]
    log: log::Format,
    /// What is worth a line
    #[arg(long, value_name = "LEVEL", env = "DULY_LOG_LEVEL", default_value = "info")]
    log_level: log::Level,
    /// Read these flags from a file; a variable counts more, a flag most
    #[arg(long, value_name = "FILE", env = "DULY_CONFIG")]
    pub config: Option<PathBuf>,
    /// How long finished runs can be looked up (30d, 12h)
    #[arg(long, value_name = "DURATION", env = "DULY_KEEP", default_value = "30d", value_parser = flag::kept)]
    keep: Span,
    /// The same for attempts that did not succeed; at least as long as --keep
    #[arg(long, value_name = "DURATION", env = "DULY_KEEP_FAILURES", default_value = "90d", value_parser = flag::kept)]
    keep_failures: Span,
    /// Remove the oldest history, however young, while more than this is stored (10GB, 500MB)
    #[arg(long, value_name = "BYTES", env = "DULY_KEEP_BYTES", value_parser = flag::bytes)]
    keep_bytes: Option<u64>,
    /// Room kept on the disk so that running work can still end when it is full
    #[arg(long, value_name = "BYTES", env = "DULY_RESERVE", default_value = "64MB", value_parser = flag::bytes)]
    reserve: u64,
    /// Attempts under way have so long to finish when the process is told to stop; then they are
    /// handed back
    #[arg(long, value_name = "DURATION", env = "DULY_GRACE", default_value = "25s", value_parser = flag::grace)]
    grace: Duration,
    /// Begin to dispatch from a restored copy: whatever ran from the original is over
    #[arg(long)]
    takeover: bool,
    /// Take jobs from the outbox in this database (`duly outbox install`), as NAME=URL; may be given
    /// several times, in the environment with spaces between
    #[arg(
        long,
        value_name = "NAME=URL",
        env = "DULY_OUTBOX",
        hide_env_values = true,
        value_delimiter = ' '
    )]
    outbox: Vec<outbox_source::Given>,
    #[command(flatten)]
    egress: Egress,
    #[command(flatten)]
    flow: Flow,
    #[command(flatten)]
    joining: joining::Joining,
    /// A program that jobs may run, by its whole path; may be given several times, in the environment
    /// with commas. Whoever may make jobs may run it, as the user that duly runs as
    #[arg(long, value_name = "PATH", env = "DULY_ALLOW_COMMAND", value_delimiter = ',', value_parser = flag::program)]
    allow_command: Vec<String>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    node::tasks::end_on_panic();
    log::start(args.log, args.log_level);
    node::tasks::raise_open_files();
    let api = runtime("api")?;
    // Attempts have threads of their own: on those of the API each of them wakes whoever waits for the other.
    let attempts = runtime("attempts")?;
    let tasks = Tasks::new(api.handle().clone());
    let executing = Tasks::new(attempts.handle().clone());
    let answer = api.block_on(serve_until_told(args, tasks, executing));
    api.shutdown_background();
    attempts.shutdown_background();
    answer
}

/// With a thread for each processor.
fn runtime(name: &str) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.thread_name(name).enable_all().build();
    built.map_err(|error| Failure::failed(format!("no runtime: {error}")))
}

async fn serve_until_told(args: &Args, tasks: Tasks, executing: Tasks) -> Result<(), Failure> {
    let no_signals = |error| Failure::failed(format!("signals cannot be heard: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(no_signals)?;
    let tls = open_tls(args)?;
    let outboxes = outbox_source::check(&args.outbox)?;
    std::fs::create_dir_all(&args.data).map_err(|error| {
        Failure::failed(format!("{} cannot be made: {error}", args.data.display()))
    })?;
    let vault = Arc::new(Vault::open(&args.data, clock::now())?);
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        let help = "duly serve --listen 127.0.0.1:0".to_string();
        Failure { help, ..Failure::failed(format!("cannot listen on {}: {error}", args.listen)) }
    })?;
    let listen = listener.local_addr().unwrap_or(args.listen);
    let client = Arc::new(args.egress.client(listen, &tasks)?);
    let served = stores::Served { reserve: args.reserve, takeover: args.takeover };
    let stores::Opened { store, words, held } =
        stores::open(&args.store, &args.data, Some(served))?;
    crash::point("opened");
    let keys = store
        .list_entries(&http_api::keys::list())
        .map_err(|error| Failure::failed(format!("the store does not answer: {error:?}")))?;
    if keys.is_empty() && !listen.ip().is_loopback() {
        return Err(no_keys(args));
    }
    let here = (args.data.as_path(), listen);
    let joined = args.joining.join(&args.store, here, &*store, &tasks).await?;
    let options = joined.as_ref().map_or_else(node::Options::alone, |joined| {
        joined.options(args.joining.has(Role::Scheduler))
    });
    let cluster = joined.as_ref().map(|joined| {
        format!("node {} at {}, secret {}", joined.number, joined.address, joined.secret)
    });
    if let Some(key) = joined.as_ref().and_then(|joined| joined.peers.secret().derive("signing")) {
        vault.share(store.clone(), key)?;
        let vault = vault.clone();
        node::tasks::every("secrets", SECRETS_EVERY, move || vault.follow());
    }
    let (node, mut queues) = Node::start(store, options)
        .map_err(|error| Failure::failed(format!("the store does not answer: {error:?}")))?;
    node.handle().keep_history(Retention {
        history: args.keep,
        failures: args.keep_failures,
        bytes: args.keep_bytes,
    });
    let whose = match args.joining.has(Role::Scheduler) {
        true => Whose::Own,
        false => Whose::All,
    };
    let commands = Commands::new(args.allow_command.clone());
    let destinations = Arc::new(Destinations::new(args.flow.breaker()));
    let known = Arc::new(Known(destinations.clone()));
    let shares = Arc::new(args.flow.shares(args.store.is_exclusive()));
    let secrets = vault.clone();
    let options = Options { client, secrets, commands, destinations, shares, whose };
    let tester = Arc::new(Tester::new(options.clone()));
    if !args.joining.has(Role::Worker) || whose == Whose::All {
        // Those of our own shards are somebody else's, or we have none.
        let (tell, told) = mpsc::channel(1);
        queues = told;
        if args.joining.has(Role::Worker) {
            tasks.start(node::queues::follow(node.handle(), tell));
        }
    }
    let executor = Executor::start(node.handle(), executing, queues, options);
    let (quotas, allowed) = (args.flow.quotas(), args.allow_command.clone());
    let api = Arc::new(Api::new(node.handle(), listen, vault, tester, known, quotas, allowed));
    api.ring.fill(&keys);
    tasks.start(http_api::quota_fires::follow(api.clone()));
    let others = joined.map(|joined| {
        api.join(joined.peers.clone());
        tasks.start(http_api::keys::follow(api.clone()));
        joined.serve(&tasks, node.handle(), http_api::cluster::routes(api.clone()))
    });
    let served = match args.joining.has(Role::Api) {
        true => routes(api.clone()),
        false => http_api::health_routes(api.clone()),
    };
    let server = serve(&tasks, listener, served, tls.clone(), Bounds::default());
    api.watch(&server);
    match held && !outboxes.is_empty() {
        true => tracing::warn!("no outbox is read: the original of this copy may read them"),
        false => outbox_source::start(&api, outboxes, &tasks),
    }
    if tls.is_none() && !listen.ip().is_loopback() {
        tracing::warn!("keys and payloads travel in the clear; give --tls-cert and --tls-key");
    }
    let handle = node.handle();
    tasks.start(node::bulk::work(handle.clone()));
    let work = async {
        handle.ready().await;
        greet(args, listen, keys.len(), (&words, cluster.as_deref()));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work => {}
        () = reload_tls(tls.as_ref(), &mut hangup) => {}
        () = told(&mut terminate, &mut interrupt) => {}
    }
    let words = wire::duration::format(args.grace.as_micros() as i64);
    say(&format!("stopping: attempts under way have {words}; a second signal ends at once"));
    crash::point("drain");
    let began = BootClock.local();
    let (gave, given) = oneshot::channel();
    let leave = async {
        let others = give_away(&handle).await;
        // Nobody listens if the executor drains already.
        let _ = gave.send(());
        if others {
            // Until every node has renewed its lease and seen who has them, some ask here.
            tokio::time::sleep(LINGER).await;
        }
        handle.events().close();
        server.stop().await;
    };
    // A shard's webhooks are sent from here until it is another node's.
    let drain = async {
        let _ = tokio::time::timeout(args.grace, given).await;
        let spent = BootClock.local().since(began).micros().max(0).unsigned_abs();
        executor.drain(args.grace.saturating_sub(Duration::from_micros(spent))).await;
    };
    tokio::select! {
        () = async { tokio::join!(leave, drain); } => {}
        () = told(&mut terminate, &mut interrupt) => say("stopped at once"),
    }
    executor.kill();
    // Last: until here answers of other nodes are heard.
    if let Some(others) = others {
        others.stop().await;
    }
    crash::point("stop-before");
    node.stop();
    crash::point("stop-after");
    say("stopped");
    Ok(())
}

fn open_tls(args: &Args) -> Result<Option<Tls>, Failure> {
    let refused = |why: String| Failure {
        help: "duly serve --tls-cert cert.pem --tls-key key.pem".to_string(),
        ..Failure::failed(why)
    };
    match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Tls::open(cert, key).map(Some).map_err(refused),
        (None, None) => Ok(None),
        _ => Err(refused("TLS needs both a certificate and a key".to_string())),
    }
}

/// Reads the files again on SIGHUP and when they have changed. A renewed certificate that cannot be
/// used leaves the old one in place. Never ends.
async fn reload_tls(tls: Option<&Tls>, hangup: &mut Signal) {
    loop {
        let asked = tokio::select! {
            _ = hangup.recv() => true,
            () = tokio::time::sleep(TLS_LOOK_EVERY) => false,
        };
        let Some(tls) = tls else { continue };
        if !asked && !tls.has_changed() {
            continue;
        }
        match tls.reload() {
            Ok(()) => tracing::info!("the certificate was read again"),
            Err(why) => tracing::warn!(why, "the certificate in use stays"),
        }
    }
}

async fn told(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Whoever can reach us could do everything.
fn no_keys(args: &Args) -> Failure {
    let data = args.data.display();
    Failure {
        exit: EXIT_REFUSED,
        message: format!("{} is not loopback, and there is no API key yet", args.listen),
        help: format!("duly key create --scope admin --data {data}"),
    }
}

/// Other nodes take the shards before this one goes; callers are answered meanwhile. False if there
/// are no others.
async fn give_away(node: &NodeHandle) -> bool {
    let mut views = node.views();
    let alone = |view: &View| !view.peers().any(|lease| lease.owns);
    if alone(&views.borrow()) {
        return false;
    }
    // If the store does not answer, the others find out when the lease has run out.
    let _ = node.leave().await;
    let given = views.wait_for(|view| view.here.is_empty() || alone(view));
    if tokio::time::timeout(GIVE_WAIT, given).await.is_err() {
        tracing::warn!("not all shards could be given away; they are taken over");
    }
    true
}

fn greet(args: &Args, listen: SocketAddr, keys: usize, (store, cluster): (&str, Option<&str>)) {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    say(&format!("duly {}", env!("CARGO_PKG_VERSION")));
    say(&format!("  address  {scheme}://{listen}"));
    say(&format!("  data     {}", args.data.display()));
    say(&format!("  store    {store}"));
    if let Some(cluster) = cluster {
        say(&format!("  cluster  {cluster}"));
    }
    say(&format!("  secret   {}", vault::path(&args.data).display()));
    match keys {
        0 => say("  keys     none: this machine only is heard"),
        keys => say(&format!("  keys     {keys}: every request needs one")),
    }
    match args.store.is_exclusive() {
        true => {
            say("  clock    the wall clock; steps of more than 5 min forward are held for 60 s")
        }
        false => say("  clock    the database's"),
    }
    say("try it (with `duly listen` in another terminal):");
    let key = if keys > 0 { "-H \"Authorization: Bearer $DULY_API_KEY\" " } else { "" };
    say(&format!(
        "  curl -s {scheme}://{listen}/v1/jobs {key}-H 'Content-Type: application/json' -d \
         '{{\"target\":{{\"http\":{{\"url\":\"http://127.0.0.1:9000/hello\"}}}},\"payload\":{{\"hello\":\"world\"}}}}'"
    ));
    say("ready");
}

/// Whoever reads our output may be gone: that does not stop a server.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
