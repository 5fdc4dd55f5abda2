//! Misbehaviour around TLS, with certificates of an authority made for the test.

use super::Wanted::{Failed, NoAnswer, Status};
use super::{Behaviour, Wanted, hear, hold, say};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

const fn of(name: &'static str, wanted: Wanted, act: fn(TcpStream)) -> Behaviour {
    Behaviour { name, tls: true, wanted, act }
}

pub const BEHAVIOURS: &[Behaviour] = &[
    of("TLS as it should be", Status(200), |stream| {
        answer(stream, &pki().good, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }),
    of("an expired certificate", Failed("expired"), |stream| answer(stream, &pki().expired, "")),
    of("a certificate for another", Failed("not valid for name"), |stream| {
        answer(stream, &pki().other, "");
    }),
    of("a certificate of its own", Failed("UnknownIssuer"), |stream| {
        answer(stream, &pki().own, "");
    }),
    of("no TLS at all", Failed("TLS"), |mut stream| {
        say(&mut stream, "HTTP/1.1 400 Speak plainly\r\nContent-Length: 0\r\n\r\n");
        hold(&mut stream);
    }),
    of("a TLS alert", Failed("TLS"), |mut stream| {
        let _ = std::io::Write::write_all(&mut stream, &[21, 3, 3, 0, 2, 2, 40]);
        hold(&mut stream);
    }),
    of("a stalled handshake", NoAnswer, |mut stream| hold(&mut stream)),
    of("closed in the handshake", Failed("TLS"), drop),
    of("an endless TLS record", Failed("TLS"), |mut stream| {
        super::forever(&mut stream, &[22, 3, 3, 0xff, 0xff, 1, 2, 3], std::time::Duration::ZERO);
    }),
    of("TLS, then silence", NoAnswer, |stream| {
        if let Some(mut stream) = open(stream, &pki().good) {
            hear(&mut stream);
            hold(&mut stream);
        }
    }),
    of("TLS cut off in the body", Status(200), |stream| {
        answer(stream, &pki().good, "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\nok");
    }),
    of("TLS cut off in the head", Failed("connection"), |stream| {
        answer(stream, &pki().good, "HTTP/1.1 200 OK\r\nContent-");
    }),
];

pub type Identity = Arc<ServerConfig>;

pub struct Pki {
    /// PEM: what `--ca-file` gets.
    pub authority: String,
    pub good: Identity,
    expired: Identity,
    other: Identity,
    own: Identity,
}

pub fn pki() -> &'static Pki {
    static PKI: OnceLock<Pki> = OnceLock::new();
    PKI.get_or_init(make)
}

fn make() -> Pki {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("names");
    // A name of its own: otherwise it is taken for the issuer of every certificate without one.
    params.distinguished_name.push(DnType::CommonName, "an authority for tests");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).expect("signed");
    let issuer = Issuer::new(params, key);
    let leaf = |names: &[&str], expired: bool| {
        let names: Vec<String> = names.iter().map(|one| one.to_string()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &issuer).expect("signed");
        identity(made.der().clone(), &key)
    };
    let key = KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_string(), "localhost".to_string()];
    let own = CertificateParams::new(names).expect("names").self_signed(&key).expect("signed");
    Pki {
        authority: authority.pem(),
        good: leaf(&["127.0.0.1", "localhost", "hooks.test"], false),
        expired: leaf(&["127.0.0.1", "localhost"], true),
        other: leaf(&["other.example"], false),
        own: identity(own.der().clone(), &key),
    }
}

fn identity(certificate: CertificateDer<'static>, key: &KeyPair) -> Identity {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("an identity");
    Arc::new(config)
}

fn open(
    stream: TcpStream,
    identity: &Identity,
) -> Option<StreamOwned<ServerConnection, TcpStream>> {
    let session = ServerConnection::new(identity.clone()).ok()?;
    Some(StreamOwned::new(session, stream))
}

/// Hears one request, answers, and closes without a farewell.
fn answer(stream: TcpStream, identity: &Identity, text: &str) {
    if let Some(mut stream) = open(stream, identity)
        && hear(&mut stream).is_some()
    {
        say(&mut stream, text);
    }
}
