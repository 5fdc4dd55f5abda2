//! The signing secrets: one or more per namespace, in `secrets.json` in the data folder, each value
//! sealed. The file is replaced whole (written beside, synced, renamed), under a lock, so that the
//! server and a command may both rotate. Readers look again when the file has changed.
//!
//! What it does not do: keep anything but signing secrets; follow changes faster than a second.

use crate::failure::Failure;
use crate::seal::MasterKey;
use executor::limits::SECRETS_MAX;
use executor::{Secret, Secrets};
use http_api::secrets::{Rotation, RotationRefused, SigningSecret, SigningSecrets};
use model::{Namespace, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::timestamp;

const FILE: &str = "secrets.json";
const LOCK: &str = "secrets.lock";
/// Versions before this one kept one secret, in plain text.
const PLAIN: &str = "signing-secret";
const SECRET_BYTES: usize = 32;
/// How often the file is looked at.
const LOOK_EVERY: Span = Span::from_secs(1);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    version: u32,
    /// Newest first.
    namespaces: BTreeMap<u32, Vec<Entry>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    id: String,
    created_at: String,
    /// It signs until then; without it, until it is rotated away.
    expires_at: Option<String>,
    /// The Idempotency-Key of the rotation that made it, and its overlap.
    rotation: Option<(String, String)>,
    sealed: String,
}

#[derive(Clone, Debug)]
struct Known {
    id: String,
    created: Time,
    expires: Option<Time>,
    rotation: Option<(String, String)>,
    secret: Secret,
}

type All = BTreeMap<u32, Vec<Known>>;
/// Inode, size and time of change: a rename changes the first.
type Stamp = (u64, u64, i64, i64);

#[derive(Debug)]
pub struct Vault {
    data: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    all: All,
    stamp: Option<Stamp>,
    looked: Option<Time>,
}

pub fn path(data: &Path) -> PathBuf {
    data.join(FILE)
}

impl Vault {
    /// Makes what is missing, and takes over the plain secret of an earlier version.
    pub fn open(data: &Path, now: Time) -> Result<Vault, Failure> {
        let vault = Vault { data: data.to_path_buf(), state: Mutex::default() };
        vault.change(|all| {
            let first = all.entry(0).or_default();
            if first.is_empty() {
                let plain = std::fs::read_to_string(data.join(PLAIN)).ok();
                let secret = plain.and_then(|text| Secret::parse(&text));
                first.push(fresh(secret, None, now));
            }
            Ok(())
        })?;
        // Only now that it is on disk elsewhere.
        let _ = std::fs::remove_file(data.join(PLAIN));
        Ok(vault)
    }

    /// Makes nothing: for commands that only look.
    pub fn look(data: &Path) -> Result<Vault, Failure> {
        let all = read(data)?;
        let stamp = stamp(data);
        let state = Mutex::new(State { all, stamp, looked: None });
        Ok(Vault { data: data.to_path_buf(), state })
    }

    /// The secrets of a namespace, for whoever checks signatures.
    pub fn known(&self, namespace: Namespace, now: Time) -> Vec<Secret> {
        let valid = self.valid(namespace, now).unwrap_or_default();
        valid.into_iter().map(|one| one.secret).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those valid at `now`, newest first. Reads the file again if somebody changed it.
    fn valid(&self, namespace: Namespace, now: Time) -> Result<Vec<Known>, Failure> {
        let mut state = self.state();
        let due = state.looked.is_none_or(|at| now.since(at) >= LOOK_EVERY || now < at);
        if due {
            state.looked = Some(now);
            let stamp = stamp(&self.data);
            if stamp != state.stamp {
                match read(&self.data) {
                    Ok(all) => (state.all, state.stamp) = (all, stamp),
                    // Gone or damaged: what is known goes on signing; the next start will say it.
                    Err(_) if !state.all.is_empty() => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
        let all = state.all.get(&namespace.0).cloned().unwrap_or_default();
        Ok(all.into_iter().filter(|one| one.expires.is_none_or(|at| now < at)).collect())
    }

    /// Reads, changes and replaces the file while nobody else does.
    fn change<T, E: From<Failure>>(
        &self,
        change: impl FnOnce(&mut All) -> Result<T, E>,
    ) -> Result<T, E> {
        let wrong = |error: std::io::Error| {
            Failure::failed(format!("{}: {error}", self.data.join(LOCK).display()))
        };
        let mut state = self.state();
        let mut open = OpenOptions::new();
        open.write(true).create(true).truncate(false).mode(0o600);
        let lock = open.open(self.data.join(LOCK)).map_err(wrong)?;
        lock.lock().map_err(wrong)?;
        let key = match MasterKey::path(&self.data).exists() || path(&self.data).exists() {
            true => MasterKey::read(&self.data)?,
            false => MasterKey::make(&self.data)?,
        };
        let mut all = match path(&self.data).exists() {
            true => read(&self.data)?,
            false => All::new(),
        };
        let done = change(&mut all)?;
        write(&self.data, &key, &all)?;
        state.stamp = stamp(&self.data);
        state.all = all;
        drop(lock);
        Ok(done)
    }

    pub fn rotate_now(
        &self,
        namespace: Namespace,
        rotation: &Rotation,
        now: Time,
    ) -> Result<bool, RotationRefused> {
        let overlap = rotation.overlap.micros().to_string();
        let given = rotation.key.clone().map(|key| (key, overlap));
        self.change(|all| {
            let here = all.entry(namespace.0).or_default();
            let before = given.as_ref().and_then(|(key, overlap)| {
                let same = here.iter().filter_map(|one| one.rotation.as_ref());
                same.filter(|(known, _)| known == key).map(|(_, then)| then == overlap).next()
            });
            match before {
                Some(true) => return Ok(true),
                Some(false) => return Err(RotationRefused::KeyReused),
                None => {}
            }
            here.retain(|one| one.expires.is_none_or(|at| now < at));
            let ends = now.plus(rotation.overlap);
            for one in here.iter_mut() {
                one.expires = Some(one.expires.map_or(ends, |at| at.min(ends)));
            }
            here.retain(|one| one.expires.is_none_or(|at| now < at));
            if here.len() >= SECRETS_MAX {
                return Err(RotationRefused::TooMany);
            }
            here.insert(0, fresh(None, given, now));
            Ok(false)
        })
    }
}

impl Secrets for Vault {
    fn of(&self, namespace: Namespace, now: Time) -> Result<Vec<Secret>, String> {
        let failed = |failure: Failure| format!("no signing secret: {}", failure.message);
        let mut valid = self.valid(namespace, now).map_err(failed)?;
        if valid.is_empty() {
            // A namespace's first webhook.
            self.change(|all| {
                let here = all.entry(namespace.0).or_default();
                if here.iter().all(|one| one.expires.is_some()) {
                    here.insert(0, fresh(None, None, now));
                }
                Ok(())
            })
            .map_err(failed)?;
            valid = self.valid(namespace, now).map_err(failed)?;
        }
        Ok(valid.into_iter().map(|one| one.secret).take(SECRETS_MAX).collect())
    }
}

impl SigningSecrets for Vault {
    fn list(&self, namespace: Namespace, now: Time) -> Result<Vec<SigningSecret>, String> {
        // A namespace that has not sent anything yet gets its secret by being asked for it.
        self.of(namespace, now)?;
        let valid = self.valid(namespace, now).map_err(|failure| failure.message)?;
        let shown = valid.into_iter().map(|one| SigningSecret {
            id: one.id,
            secret: one.secret.reveal(),
            created_at: one.created,
            expires_at: one.expires,
        });
        Ok(shown.collect())
    }

    fn rotate(
        &self,
        namespace: Namespace,
        rotation: &Rotation,
        now: Time,
    ) -> Result<bool, RotationRefused> {
        self.rotate_now(namespace, rotation, now)
    }
}

impl From<Failure> for RotationRefused {
    fn from(failure: Failure) -> RotationRefused {
        RotationRefused::Failed(failure.message)
    }
}

fn fresh(secret: Option<Secret>, rotation: Option<(String, String)>, now: Time) -> Known {
    let secret = secret.unwrap_or_else(|| {
        let mut bytes = vec![0; SECRET_BYTES];
        node::random::fill(&mut bytes);
        Secret::new(bytes)
    });
    let id = format!("sec_{:016x}", node::random::bits());
    Known { id, created: now, expires: None, rotation, secret }
}

fn stamp(data: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path(data)).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

fn about(namespace: u32, id: &str) -> String {
    format!("signing-secret/{namespace}/{id}")
}

fn read(data: &Path) -> Result<All, Failure> {
    let path = path(data);
    let wrong = |why: String| Failure::failed(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let stored: Stored = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if stored.version != 1 {
        return Err(wrong(format!("version {} is not known here", stored.version)));
    }
    let key = MasterKey::read(data)?;
    let time = |text: &str| timestamp::parse(text).ok().map(Time::from_micros);
    let mut all = All::new();
    for (namespace, entries) in stored.namespaces {
        let here = all.entry(namespace).or_default();
        for entry in entries {
            let id = &entry.id;
            let value = key.open(&about(namespace, id), &entry.sealed);
            let value =
                value.ok_or_else(|| wrong(format!("{id} does not open with master.key")))?;
            let bad_time = || wrong(format!("{id} has a time that cannot be read"));
            here.push(Known {
                created: time(&entry.created_at).ok_or_else(bad_time)?,
                expires: match &entry.expires_at {
                    Some(text) => Some(time(text).ok_or_else(bad_time)?),
                    None => None,
                },
                secret: Secret::new(value),
                rotation: entry.rotation,
                id: entry.id,
            });
        }
    }
    Ok(all)
}

fn write(data: &Path, key: &MasterKey, all: &All) -> Result<(), Failure> {
    let path = path(data);
    let wrong = |why: String| Failure::failed(format!("{}: {why}", path.display()));
    let mut stored = Stored { version: 1, namespaces: BTreeMap::new() };
    for (namespace, here) in all {
        let mut entries = Vec::new();
        for one in here {
            let sealed = key.seal(&about(*namespace, &one.id), one.secret.bytes());
            entries.push(Entry {
                id: one.id.clone(),
                created_at: timestamp::format(one.created.micros()),
                expires_at: one.expires.map(|at| timestamp::format(at.micros())),
                rotation: one.rotation.clone(),
                sealed: sealed.ok_or_else(|| wrong("it cannot be sealed".to_string()))?,
            });
        }
        stored.namespaces.insert(*namespace, entries);
    }
    let text = serde_json::to_string_pretty(&stored).map_err(|error| wrong(error.to_string()))?;
    let beside = data.join(format!("{FILE}.new"));
    let replace = || -> std::io::Result<()> {
        let mut open = OpenOptions::new();
        let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        std::fs::rename(&beside, &path)?;
        File::open(data)?.sync_all()
    };
    replace().map_err(|error| wrong(error.to_string()))
}
