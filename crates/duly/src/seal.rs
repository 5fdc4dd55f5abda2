//! Values that lie encrypted on disk: ChaCha20-Poly1305 under the data folder's master key. Whoever
//! gets a copy of `secrets.json` or of a backup without `master.key` has nothing.

use crate::failure::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const FILE: &str = "master.key";
const KEY_BYTES: usize = 32;

pub struct MasterKey(LessSafeKey);

impl MasterKey {
    pub fn path(data: &Path) -> PathBuf {
        data.join(FILE)
    }

    /// Refuses a key that others can read: then it protects nothing.
    pub fn read(data: &Path) -> Result<MasterKey, Failure> {
        let path = MasterKey::path(data);
        let wrong = |why: String| Failure::failed(format!("{}: {why}", path.display()));
        let about = std::fs::metadata(&path).map_err(|error| {
            let help = "restore master.key next to secrets.json; without it no secret can be read";
            Failure { help: help.to_string(), ..wrong(error.to_string()) }
        })?;
        if about.permissions().mode() & 0o077 != 0 {
            let help = format!("chmod 600 {}", path.display());
            return Err(Failure { help, ..wrong("others can read it".to_string()) });
        }
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let bytes = STANDARD.decode(text.trim()).ok();
        bytes
            .and_then(|bytes| MasterKey::of(&bytes))
            .ok_or_else(|| wrong("it is no key".to_string()))
    }

    pub fn make(data: &Path) -> Result<MasterKey, Failure> {
        let path = MasterKey::path(data);
        let mut bytes = [0; KEY_BYTES];
        node::random::fill(&mut bytes);
        let write = || -> std::io::Result<()> {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            writeln!(file, "{}", STANDARD.encode(bytes))?;
            file.sync_all()?;
            std::fs::File::open(data)?.sync_all()
        };
        let wrong = |why: String| Failure::failed(format!("{}: {why}", path.display()));
        write().map_err(|error| wrong(error.to_string()))?;
        MasterKey::of(&bytes).ok_or_else(|| wrong("it is no key".to_string()))
    }

    pub fn of(bytes: &[u8]) -> Option<MasterKey> {
        UnboundKey::new(&CHACHA20_POLY1305, bytes).ok().map(|key| MasterKey(LessSafeKey::new(key)))
    }

    /// `about` names what the value is for: one put in another's place is not opened. Nonces are
    /// random: a folder's life has a few thousand values at most, far from a collision.
    pub fn seal(&self, about: &str, value: &[u8]) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        node::random::fill(&mut nonce);
        let mut sealed = value.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(unique, Aad::from(about), &mut sealed).ok()?;
        Some(STANDARD.encode([&nonce[..], &sealed].concat()))
    }

    pub fn open(&self, about: &str, sealed: &str) -> Option<Vec<u8>> {
        let bytes = STANDARD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        self.0.open_in_place(nonce, Aad::from(about), &mut sealed).ok().map(|value| value.to_vec())
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_opened_only_whole_under_its_key_and_in_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = MasterKey::make(folder.path()).expect("made");
        let sealed = key.seal("a", b"value").expect("sealed");
        assert_ne!(key.seal("a", b"value").expect("sealed"), sealed, "nonces differ");
        let again = MasterKey::read(folder.path()).expect("read");
        assert_eq!(again.open("a", &sealed).as_deref(), Some(&b"value"[..]));
        assert_eq!(again.open("b", &sealed), None);
        for at in 0..sealed.len() {
            let mut wrong = sealed.clone().into_bytes();
            wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(again.open("a", &String::from_utf8_lossy(&wrong)), None, "{at}");
        }
        assert_eq!(again.open("a", ""), None);
        let other = tempfile::tempdir().expect("a folder");
        let other = MasterKey::make(other.path()).expect("made");
        assert_eq!(other.open("a", &sealed), None);
        // A second one is never made over the first.
        assert!(MasterKey::make(folder.path()).is_err());
        let path = MasterKey::path(folder.path());
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("set");
        let refused = MasterKey::read(folder.path()).expect_err("readable by others");
        assert!(refused.help.starts_with("chmod 600"), "{refused}");
    }
}
