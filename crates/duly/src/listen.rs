//! `duly listen`: a receiver to try webhooks with. It checks the signature, prints what came, and
//! misbehaves on request.

use crate::failure::Failure;
use crate::{clock, secret};
use executor::Secret;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use node::Tasks;
use std::convert::Infallible;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

/// The largest webhook that is read.
const BODY_MAX: usize = 1024 * 1024;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 9000)]
    port: u16,
    /// Answer the first N requests with 500
    #[arg(long, value_name = "N", default_value_t = 0)]
    fail_first: u32,
    /// Wait so long before each answer
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    delay: String,
    /// The server's data folder, for its signing secret
    #[arg(long, value_name = "DIR", env = "DULY_DATA", default_value = "./duly-data")]
    data: PathBuf,
    /// The signing secret itself, instead of --data
    #[arg(long, value_name = "whsec_…", env = "DULY_SIGNING_SECRET", hide_env_values = true)]
    secret: Option<String>,
}

struct Receiver {
    secret: Option<Secret>,
    fail: AtomicU32,
    delay: Duration,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let secret = match &args.secret {
        Some(text) => Some(Secret::parse(text).ok_or_else(|| {
            Failure::failed("--secret is whsec_ and base64; the server's data folder has it")
        })?),
        None => secret::read(&args.data).ok(),
    };
    let delay = wire::duration::parse(&args.delay)
        .map_err(|error| Failure::failed(format!("--delay: {error}")))?;
    let delay = Duration::from_micros(delay.unsigned_abs());
    let receiver = Arc::new(Receiver { secret, fail: AtomicU32::new(args.fail_first), delay });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("no runtime: {error}")))?;
    let tasks = Tasks::new(runtime.handle().clone());
    runtime.block_on(accept(args.port, receiver, tasks))
}

async fn accept(port: u16, receiver: Arc<Receiver>, tasks: Tasks) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot listen on 127.0.0.1:{port}: {error}"));
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    say(&format!("listening on http://{address}"));
    if receiver.secret.is_none() {
        say("no signing secret found (--data, --secret): signatures are not checked");
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
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return Ok(answer(StatusCode::PAYLOAD_TOO_LARGE, "too large")),
    };
    let header = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let signature = match &receiver.secret {
        None => Ok("not checked"),
        Some(secret) => secret
            .verify(
                header("webhook-id"),
                header("webhook-timestamp"),
                header("webhook-signature"),
                &body,
                clock::now().secs(),
            )
            .map(|()| "good"),
    };
    let fails = receiver
        .fail
        .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok();
    let status = match (signature, fails) {
        (Err(_), _) => StatusCode::UNAUTHORIZED,
        (Ok(_), true) => StatusCode::INTERNAL_SERVER_ERROR,
        (Ok(_), false) => StatusCode::OK,
    };
    say(&format!(
        "{} {} run={} attempt={} token={} key={} signature={} answer={} body={}",
        head.method,
        head.uri,
        header("x-run-id"),
        header("x-attempt"),
        header("x-fencing-token"),
        header("idempotency-key"),
        signature.unwrap_or("BAD"),
        status.as_u16(),
        String::from_utf8_lossy(&body).escape_debug(),
    ));
    if !receiver.delay.is_zero() {
        tokio::time::sleep(receiver.delay).await;
    }
    Ok(answer(status, if fails { "failed on request" } else { "{\"heard\":true}" }))
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
