//! A PostgreSQL of its own, started and stopped by the project's script.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

pub struct Postgres {
    pub address: String,
    folder: tempfile::TempDir,
}

impl Postgres {
    pub fn start() -> Postgres {
        let folder = tempfile::Builder::new().prefix("duly-postgres-").tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        drop(listener);
        let address = script(&["start", folder.path().to_str().unwrap(), &port]);
        Postgres { address, folder }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        script(&["stop", self.folder.path().to_str().unwrap()]);
    }
}

fn script(args: &[&str]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres.sh");
    let ran = Command::new(path).args(args).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_string()
}
