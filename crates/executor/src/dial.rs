//! A new connection: resolve, vet **every** address, dial one of them, look who answered, shake
//! hands. Nothing is cached between two dials: each one is vetted anew.

use crate::limits::{ADDRESSES_MAX, CONNECT_TIMEOUT};
use crate::place::Place;
use crate::resolve::Resolve;
use crate::stream::Kind;
use crate::tls;
use crate::trouble::Trouble;
use crate::vet::Guard;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wire::host::Host;

pub struct Dialler<'a> {
    pub guard: &'a Guard,
    pub resolver: &'a dyn Resolve,
    pub tls: &'a TlsConnector,
}

impl Dialler<'_> {
    pub async fn dial(&self, place: &Place) -> Result<Kind, Trouble> {
        let late = || Trouble::Failed(format!("could not connect to {place} in 5 s"));
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.connect(place));
        let stream = connecting.await.unwrap_or_else(|_| Err(late()))?;
        // A webhook is one small request: waiting for more to send only delays it.
        let _ = stream.set_nodelay(true);
        if !place.tls {
            return Ok(Kind::Plain(stream));
        }
        tls::shake(self.tls, place, stream).await.map(|stream| Kind::Tls(Box::new(stream)))
    }

    async fn connect(&self, place: &Place) -> Result<TcpStream, Trouble> {
        let found = self.addresses(place).await?;
        let some: Vec<SocketAddr> = found.into_iter().take(ADDRESSES_MAX).collect();
        let mut last = Trouble::Failed(format!("{place} has no address"));
        let mut left = some.len() as u32;
        for address in some {
            // An address that swallows what is sent must leave time for the next one.
            let share = CONNECT_TIMEOUT / left.max(1);
            left = left.saturating_sub(1);
            match connect_one(address, share).await {
                Ok(stream) => {
                    self.check(place, address, &stream)?;
                    return Ok(stream);
                }
                Err(why) => last = Trouble::Failed(format!("could not connect to {place}: {why}")),
            }
        }
        Err(last)
    }

    async fn addresses(&self, place: &Place) -> Result<Vec<SocketAddr>, Trouble> {
        let found: Vec<IpAddr> = match &place.host {
            Host::Address(ip) => vec![*ip],
            Host::Name(name) => self.resolver.resolve(name).await.map_err(|error| {
                Trouble::Failed(format!("{name} could not be resolved: {error}"))
            })?,
        };
        let found: Vec<SocketAddr> =
            found.into_iter().map(|ip| SocketAddr::new(ip, place.port)).collect();
        // A name with one bad address is a bad name.
        for address in &found {
            self.guard.vet(*address).map_err(|why| refused(place, *address, why))?;
        }
        Ok(found)
    }

    fn check(&self, place: &Place, to: SocketAddr, stream: &TcpStream) -> Result<(), Trouble> {
        let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else {
            return Err(Trouble::Failed(format!("the connection to {place} is gone")));
        };
        self.guard.vet_peer(to, peer, local).map_err(|why| refused(place, peer, why))
    }
}

async fn connect_one(address: SocketAddr, within: Duration) -> Result<TcpStream, String> {
    match tokio::time::timeout(within, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_string()),
    }
}

fn refused(place: &Place, address: SocketAddr, why: &str) -> Trouble {
    let ip = address.ip();
    Trouble::Refused(format!(
        "{place} is refused: {ip}, {why} (networks of your own: duly serve --allow-egress)"
    ))
}
