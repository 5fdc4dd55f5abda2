//! `duly listen`: a receiver to try webhooks with. It checks the signature, prints what came, and
//! misbehaves on request.

use crate::clock;
use crate::failure::Failure;
use crate::vault::Vault;
use executor::Secret;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::Namespace;
use node::Tasks;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;

/// The largest webhook that is read.
const BODY_MAX: usize = 1024 * 1024;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 9000)]
    port: u16,
    /// Misbehave for the first N requests only: answer 500, or what --status, --hang, --reset say
    #[arg(long, value_name = "N")]
    fail_first: Option<u32>,
    /// Wait so long before each answer
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    delay: String,
    /// Answer with this status
    #[arg(long, value_name = "CODE", group = "fault", value_parser = clap::value_parser!(u16).range(200..=599))]
    status: Option<u16>,
    /// Never answer
    #[arg(long, group = "fault")]
    hang: bool,
    /// Break the connection off instead of answering
    #[arg(long, group = "fault")]
    reset: bool,
    /// Send Retry-After with a misbehaving answer: seconds or an HTTP date
    #[arg(long, value_name = "WHEN")]
    retry_after: Option<String>,
    /// Send X-Job-Outcome with every answer
    #[arg(long, value_parser = ["succeed", "retry", "fail"])]
    outcome: Option<String>,
    /// The server's data folder, for its signing secrets
    #[arg(long, value_name = "DIR", env = "DULY_DATA", default_value = "./duly-data")]
    data: PathBuf,
    /// A signing secret, instead of --data
    #[arg(long, value_name = "whsec_…", env = "DULY_SIGNING_SECRET", hide_env_values = true)]
    secret: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Status(StatusCode),
    Hang,
    Reset,
}

/// The connection is broken off: what hyper is told in place of an answer.
#[derive(Debug)]
struct BrokenOff;

impl std::fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken off on request")
    }
}

impl std::error::Error for BrokenOff {}

struct Receiver {
    secrets: Source,
    fault: Fault,
    /// How many more requests are treated badly.
    bad: AtomicU32,
    delay: Duration,
    retry_after: Option<HeaderValue>,
    outcome: Option<HeaderValue>,
}

/// Where the secrets come from. A folder is looked at anew: the server may start later, or rotate.
enum Source {
    Given(Secret),
    Folder(PathBuf, Mutex<Option<Vault>>),
}

impl Source {
    fn secrets(&self) -> Vec<Secret> {
        match self {
            Source::Given(secret) => vec![secret.clone()],
            Source::Folder(data, vault) => {
                let mut vault = vault.lock().unwrap_or_else(PoisonError::into_inner);
                if vault.is_none() {
                    *vault = Vault::look(data).ok();
                }
                let known = vault.as_ref().map(|vault| vault.known(Namespace(0), clock::now()));
                known.unwrap_or_default()
            }
        }
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let receiver = Arc::new(receiver(args)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("no runtime: {error}")))?;
    let tasks = Tasks::new(runtime.handle().clone());
    runtime.block_on(accept(args.port, receiver, tasks))
}

fn receiver(args: &Args) -> Result<Receiver, Failure> {
    let usage = |why: String| Failure {
        exit: 2,
        help: "duly listen --help".to_string(),
        ..Failure::failed(why)
    };
    let secrets = match &args.secret {
        Some(text) => Source::Given(Secret::parse(text).ok_or_else(|| {
            usage("--secret is whsec_ and base64; duly secret show prints it".to_string())
        })?),
        None => Source::Folder(args.data.clone(), Mutex::new(None)),
    };
    let delay =
        wire::duration::parse(&args.delay).map_err(|error| usage(format!("--delay: {error}")))?;
    let fault = match (args.status, args.hang, args.reset) {
        (Some(code), ..) => StatusCode::from_u16(code).map(Fault::Status).ok(),
        (_, true, _) => Some(Fault::Hang),
        (_, _, true) => Some(Fault::Reset),
        _ => None,
    };
    // A fault without a number is for all; a number without a fault answers 500.
    let bad = args.fail_first.unwrap_or(if fault.is_some() { u32::MAX } else { 0 });
    let header =
        |name: &str, text: &Option<String>| match text.as_deref().map(HeaderValue::from_str) {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) => Err(usage(format!("{name} cannot be sent"))),
        };
    Ok(Receiver {
        secrets,
        fault: fault.unwrap_or(Fault::Status(StatusCode::INTERNAL_SERVER_ERROR)),
        bad: AtomicU32::new(bad),
        delay: Duration::from_micros(delay.unsigned_abs()),
        retry_after: header("--retry-after", &args.retry_after)?,
        outcome: header("--outcome", &args.outcome)?,
    })
}

async fn accept(port: u16, receiver: Arc<Receiver>, tasks: Tasks) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot listen on 127.0.0.1:{port}: {error}"));
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    say(&format!("listening on http://{address}"));
    if receiver.secrets.secrets().is_empty() {
        say("no signing secret found yet (--data, --secret): signatures are not checked");
    }
    loop {
        let (stream, _) = listener.accept().await.map_err(failed)?;
        let receiver = receiver.clone();
        tasks.start(async move {
            let service = service_fn(move |request| hear(receiver.clone(), request));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn hear(
    receiver: Arc<Receiver>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, BrokenOff> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return Ok(answer(StatusCode::PAYLOAD_TOO_LARGE, "too large")),
    };
    let header = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let secrets = receiver.secrets.secrets();
    let (id, stamp) = (header("webhook-id"), header("webhook-timestamp"));
    let given = header("webhook-signature");
    let checked: Vec<Result<(), &str>> = secrets
        .iter()
        .map(|one| one.verify(id, stamp, given, &body, clock::now().secs()))
        .collect();
    let signature = match checked.iter().find(|one| one.is_ok()).or(checked.first()) {
        None => Ok("not checked"),
        Some(Ok(())) => Ok("good"),
        Some(Err(why)) => Err(*why),
    };
    let bad = receiver
        .bad
        .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
            u32::MAX => Some(left),
            _ => left.checked_sub(1),
        })
        .is_ok();
    let (said, fault) = match (signature, bad) {
        (Err(_), _) => ("401".to_string(), Some(Fault::Status(StatusCode::UNAUTHORIZED))),
        (Ok(_), true) => (name(receiver.fault), Some(receiver.fault)),
        (Ok(_), false) => ("200".to_string(), None),
    };
    say(&format!(
        "{} {} run={} attempt={} token={} key={} signature={} answer={said} body={}",
        head.method,
        head.uri,
        header("x-run-id"),
        header("x-attempt"),
        header("x-fencing-token"),
        header("idempotency-key"),
        signature.map_or_else(|why| format!("BAD ({why})"), str::to_string),
        String::from_utf8_lossy(&body).escape_debug(),
    ));
    if !receiver.delay.is_zero() {
        tokio::time::sleep(receiver.delay).await;
    }
    let mut response = match fault {
        None => answer(StatusCode::OK, "{\"heard\":true}"),
        Some(Fault::Status(status)) => answer(status, "failed on request"),
        Some(Fault::Reset) => return Err(BrokenOff),
        Some(Fault::Hang) => std::future::pending().await,
    };
    if let (true, Some(value)) = (fault.is_some(), &receiver.retry_after) {
        response.headers_mut().insert(RETRY_AFTER, value.clone());
    }
    if let Some(value) = &receiver.outcome {
        response.headers_mut().insert(HeaderName::from_static("x-job-outcome"), value.clone());
    }
    Ok(response)
}

fn name(fault: Fault) -> String {
    match fault {
        Fault::Status(status) => status.as_str().to_string(),
        Fault::Hang => "none (hangs)".to_string(),
        Fault::Reset => "none (broken off)".to_string(),
    }
}

fn answer(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
