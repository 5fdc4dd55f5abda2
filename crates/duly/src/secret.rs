//! The key that signs webhooks: made at the first start, kept in the data folder, readable by its
//! owner only. (Encrypted storage, one key per namespace and rotation come later.)

use crate::failure::Failure;
use executor::Secret;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "signing-secret";
const SECRET_BYTES: usize = 32;

pub fn path(data: &Path) -> PathBuf {
    data.join(FILE)
}

pub fn read(data: &Path) -> Result<Secret, Failure> {
    let path = path(data);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::failed(format!("{} cannot be read: {error}", path.display())))?;
    Secret::parse(&text)
        .ok_or_else(|| Failure::failed(format!("{} holds no whsec_ secret", path.display())))
}

pub fn read_or_make(data: &Path) -> Result<Secret, Failure> {
    let path = path(data);
    if path.exists() {
        return read(data);
    }
    let mut bytes = vec![0; SECRET_BYTES];
    node::random::fill(&mut bytes);
    let secret = Secret::new(bytes);
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        writeln!(file, "{}", secret.reveal())?;
        file.sync_all()
    };
    write()
        .map_err(|error| Failure::failed(format!("{} cannot be made: {error}", path.display())))?;
    Ok(secret)
}
