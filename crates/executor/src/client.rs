//! One request to a place: on a kept connection if there is one, else on a new one.
//!
//! A kept connection may be closed by its peer in the moment it is used. If it ends before a single
//! byte of an answer came, the request is sent once more on a new connection, inside the same
//! attempt: same run id, same token, so a receiver that did hear the first one sees a repetition
//! that it must recognise anyway. Any other failure is the attempt's failure.

use crate::answer::Heard;
use crate::connection::{Connection, Until};
use crate::dial::Dialler;
use crate::place::Place;
use crate::pool::Pool;
use crate::resolve::Resolve;
use crate::stream::Kind;
use crate::tls;
use crate::trouble::Trouble;
use crate::vet::Guard;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use model::Time;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;

pub struct Client {
    guard: Guard,
    resolver: Arc<dyn Resolve>,
    tls: TlsConnector,
    /// The same authorities, without a word about HTTP.
    broker_tls: TlsConnector,
    first_byte: Option<Duration>,
    pool: Pool,
}

impl Client {
    /// `ca_file`: authorities besides those everybody trusts. `first_byte`: how long an answer may
    /// take to begin; without it, as long as the attempt.
    pub fn new(
        guard: Guard,
        resolver: Arc<dyn Resolve>,
        ca_file: Option<&Path>,
        first_byte: Option<Duration>,
    ) -> Result<Client, String> {
        let tls = tls::connector(ca_file, &[b"http/1.1"])?;
        let broker_tls = tls::connector(ca_file, &[])?;
        Ok(Client { guard, resolver, tls, broker_tls, first_byte, pool: Pool::default() })
    }

    /// A new connection for another protocol, to a vetted address.
    pub(crate) async fn dial(&self, place: &Place) -> Result<Kind, Trouble> {
        let tls = &self.broker_tls;
        Dialler { guard: &self.guard, resolver: &*self.resolver, tls }.dial(place).await
    }

    /// `again` makes the same request once more: rarely needed, where a copy would be made for every webhook.
    pub async fn send(
        &self,
        place: &Place,
        mut request: Request<Full<Bytes>>,
        again: impl FnOnce() -> Result<Request<Full<Bytes>>, String>,
        until: Until,
        now: Time,
    ) -> Result<Heard, Trouble> {
        if let Some(kept) = self.pool.take(place).await {
            let silent = kept.heard();
            let (kept, said) = self.exchange(kept, request, until, now).await;
            match said {
                Ok((heard, again)) => return Ok(self.done(place, kept, heard, again)),
                Err(Trouble::Failed(_)) if kept.heard() == silent => {}
                Err(trouble) => return Err(trouble),
            }
            request = again().map_err(Trouble::Failed)?;
        }
        // In a box: what every attempt carries stays small, and this is rare and large.
        Box::pin(self.send_anew(place, request, until, now)).await
    }

    async fn send_anew(
        &self,
        place: &Place,
        request: Request<Full<Bytes>>,
        until: Until,
        now: Time,
    ) -> Result<Heard, Trouble> {
        let dialler = Dialler { guard: &self.guard, resolver: &*self.resolver, tls: &self.tls };
        let dialling = tokio::time::timeout(until.left(), dialler.dial(place));
        let stream = dialling.await.unwrap_or(Err(Trouble::Timeout))?;
        let fresh = Connection::new(stream).await?;
        let (fresh, said) = self.exchange(fresh, request, until, now).await;
        let (heard, again) = said?;
        Ok(self.done(place, fresh, heard, again))
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
        until: Until,
        now: Time,
    ) -> (Connection, Result<(Heard, bool), Trouble>) {
        let said = connection.exchange(request, self.first_byte, until, now).await;
        (connection, said)
    }

    fn done(&self, place: &Place, connection: Connection, heard: Heard, again: bool) -> Heard {
        if again {
            self.pool.keep(place, connection);
        }
        heard
    }

    /// Called now and then.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    /// Connections that are kept.
    pub fn idle(&self) -> usize {
        self.pool.len()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("guard", &self.guard).finish_non_exhaustive()
    }
}
