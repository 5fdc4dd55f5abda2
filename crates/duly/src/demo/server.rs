//! A `duly serve` of the demo's own: this very binary, on a free port, in a folder of its own.

use crate::client;
use crate::failure::Failure;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[derive(Debug)]
pub struct Server {
    data: PathBuf,
    child: Child,
    client: client::Server,
}

impl Server {
    pub fn start() -> Result<Server, Failure> {
        let data = std::env::temp_dir().join(format!("duly-demo-{:016x}", node::random::bits()));
        match begin(&data) {
            Ok((child, client)) => Ok(Server { data, child, client }),
            Err(failure) => {
                let _ = std::fs::remove_dir_all(&data);
                Err(failure)
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn post(&self, path: &str, body: String) -> Result<String, Failure> {
        self.client.post(path, body)
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn start_again(&mut self) -> Result<(), Failure> {
        (self.child, self.client) = begin(&self.data)?;
        Ok(())
    }

    pub fn stop(&mut self) {
        self.kill();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

fn begin(data: &Path) -> Result<(Child, client::Server), Failure> {
    let failed = |what: String| Failure::failed(format!("the server did not start: {what}"));
    let me = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(me);
    command.args(["serve", "--listen", "127.0.0.1:0", "--reserve", "1MB", "--data"]).arg(data);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let mut url = None;
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let Some(found) = line.trim().strip_prefix("address  ") {
                url = Some(found.to_string());
            }
            if line == "ready" {
                break;
            }
        }
    }
    match url {
        Some(url) => Ok((child, client::Server::at(url))),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            Err(failed("it ended before it was ready".to_string()))
        }
    }
}
