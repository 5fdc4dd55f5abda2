//! HTTPS: the real server with a certificate of an authority of the test's own.

use crate::server::{Server, new_queue};
use duly_client::{Backoff, Client, Context, End, Error, JobRequest, Worker};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An authority, and files of what it says.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let file = folder.join(format!("{name}.pem"));
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { issuer: Issuer::new(params, key), file }
    }

    /// A certificate and its key for somebody of this name.
    fn certify(&self, folder: &Path, name: &str) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_string()]).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let files = ["cert", "key"].map(|what| folder.join(format!("{name}-{what}.pem")));
        std::fs::write(&files[0], signed.pem()).unwrap();
        std::fs::write(&files[1], key.serialize_pem()).unwrap();
        files.map(|file| file.to_str().unwrap().to_string())
    }
}

fn client(server: &Server, ca: Option<&Path>) -> Client {
    let once = Backoff { retries: 0, ..Backoff::default() };
    let builder = Client::builder().url(&*server.url).backoff(once);
    match ca {
        Some(file) => builder.ca_file(file).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

#[tokio::test]
async fn a_server_with_a_certificate_of_the_authority_is_spoken_to_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (ours, strange) = (Authority::new(folder, "ours"), Authority::new(folder, "strange"));
    let [cert, key] = ours.certify(folder, "127.0.0.1");
    let server = Server::start_with(&["--tls-cert", &cert, "--tls-key", &key]);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let trusted = client(&server, Some(&ours.file));
    let queue = new_queue();
    let job = JobRequest::worker("k").queue(&*queue);
    let run = trusted.create(&job).await.unwrap().run_id.unwrap();

    // The worker's heart and its claims have connections of their own.
    let builder = Worker::builder(&trusted).queues([&*queue]).lease(Duration::from_secs(1));
    let mut worker = builder.build().unwrap();
    let control = worker.control();
    let handler = move |_: Value, ctx: Context| {
        let control = control.clone();
        async move {
            ctx.checkpoint(&1).await?; // said by a heartbeat
            control.stop();
            Ok::<&str, End>("over TLS")
        }
    };
    worker.handle("k", handler).unwrap();
    assert_eq!(worker.serve().await.unwrap().succeeded, 1);
    assert_eq!(trusted.run(&run).await.unwrap().output, Some("over TLS".into()));

    for ca in [Some(&*strange.file), None] {
        let said = client(&server, ca).run(&run).await.unwrap_err();
        assert!(matches!(said, Error::Transport(_)), "{said:?}");
        assert!(said.to_string().contains("certificate"), "{said}");
    }
    let [cert, key] = ours.certify(folder, "jobs.example");
    let other = Server::start_with(&["--tls-cert", &cert, "--tls-key", &key]);
    let said = client(&other, Some(&ours.file)).run(&run).await.unwrap_err();
    assert!(said.to_string().contains("jobs.example"), "its name is another: {said}");
}

#[test]
fn a_file_without_certificates_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.pem");
    std::fs::write(&file, "").unwrap();
    for file in [file, folder.path().join("missing.pem")] {
        let said = Client::builder().url("https://127.0.0.1:1").ca_file(&file).build();
        let said = said.unwrap_err().to_string();
        assert!(said.contains(file.to_str().unwrap()), "{said}");
    }
}
