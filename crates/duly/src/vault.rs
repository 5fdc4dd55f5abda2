//! The signing secrets: one or more per namespace, in `secrets.json` in the data folder, each value
//! sealed. The file is replaced whole (written beside, synced, renamed), under a lock, so that the
//! server and a command may both rotate. Readers look again when the file has changed.
//!
//! Nodes that share a database share their secrets: an entry of the catalog holds them all, sealed under
//! a key made of the cluster's secret (`share`). It counts more than the file, which follows it.
//!
//! What it does not do: keep anything but signing secrets; follow changes faster than a second.

use crate::failure::Failure;
use crate::seal::MasterKey;
use executor::limits::SECRETS_MAX;
use executor::{Secret, Secrets};
use http_api::secrets::{Rotation, RotationRefused, SigningSecret, SigningSecrets};
use model::{Namespace, Span, Text, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use store::Backend;
use store::catalog::{Changed, EntryChange, Kind, Place};
use wire::timestamp;

const FILE: &str = "secrets.json";
const LOCK: &str = "secrets.lock";
/// Versions before this one kept one secret, in plain text.
const PLAIN: &str = "signing-secret";
const SECRET_BYTES: usize = 32;
/// How often the file is looked at.
const LOOK_EVERY: Span = Span::from_secs(1);
/// Tries to change what other nodes change, too.
const SHARE_TRIES: usize = 8;

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
    shared: OnceLock<Box<Shared>>,
}

/// Where nodes keep the secrets that they have in common.
struct Shared {
    store: Arc<dyn Backend>,
    key: MasterKey,
    /// The revision that the file has.
    rev: AtomicU64,
    /// The catalog's revision when it was last looked at; 0 = never.
    looked: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
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
        let shared = OnceLock::new();
        let vault = Vault { data: data.to_path_buf(), state: Mutex::default(), shared };
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
        Ok(Vault { data: data.to_path_buf(), state, shared: OnceLock::new() })
    }

    /// From here on the nodes of this database have the same secrets: those in the catalog or, if
    /// this is the first node, its own.
    pub fn share(&self, store: Arc<dyn Backend>, key: [u8; 32]) -> Result<(), Failure> {
        let key = MasterKey::of(&key);
        let key = key.ok_or_else(|| Failure::failed("the cluster's secret makes no key"))?;
        let _ = self.shared.set(Box::new(Shared {
            store,
            key,
            rev: AtomicU64::new(0),
            looked: AtomicU64::new(0),
        }));
        self.change(|_| Ok(()))
    }

    /// Takes over what another node changed. For whoever calls it now and then.
    pub fn follow(&self) {
        let Some(shared) = self.shared.get() else { return };
        let seen = shared.store.seen_rev();
        if seen.is_some_and(|seen| seen == shared.looked.load(Ordering::Relaxed)) {
            return;
        }
        // A store that does not answer is asked again.
        let Ok(Some((rev, _))) = shared.read() else { return };
        shared.looked.store(seen.unwrap_or(0), Ordering::Relaxed);
        if rev != shared.rev.load(Ordering::Relaxed)
            && let Err(failure) = self.change::<(), Failure>(|_| Ok(()))
        {
            tracing::warn!(why = failure.message, "signing secrets of other nodes stay unknown");
        }
    }

    /// The secrets of a namespace, for whoever checks signatures.
    pub fn known(&self, namespace: Namespace, now: Time) -> Vec<Secret> {
        self.valid(namespace, now, |one| one.secret.clone()).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of those valid at `now`, newest first, what is wanted. Reads the file again if somebody changed it.
    fn valid<T>(
        &self,
        namespace: Namespace,
        now: Time,
        wanted: impl Fn(&Known) -> T,
    ) -> Result<Vec<T>, Failure> {
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
        let all = state.all.get(&namespace.0).into_iter().flatten();
        Ok(all.filter(|one| one.expires.is_none_or(|at| now < at)).map(wanted).collect())
    }

    /// Reads, changes and replaces the file while nobody else does.
    fn change<T, E: From<Failure>>(
        &self,
        change: impl Fn(&mut All) -> Result<T, E>,
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
        let done = match self.shared.get() {
            None => change(&mut all)?,
            Some(shared) => shared.change(&mut all, change)?,
        };
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
            here.insert(0, fresh(None, given.clone(), now));
            Ok(false)
        })
    }
}

impl Shared {
    fn place() -> Place {
        let name = Text::from("signing-secrets");
        Place { kind: Kind::Setting, namespace: Namespace(0), name }
    }

    /// The entry's revision, and what it holds.
    fn read(&self) -> Result<Option<(u64, All)>, Failure> {
        let silent = |_| Failure::failed("the store does not answer");
        let found = self.store.entries(&[Shared::place()]).map_err(silent)?;
        let Some(entry) = found.into_iter().flatten().next() else { return Ok(None) };
        let all = opened(&self.key, &entry.text).map_err(|why| {
            Failure::failed(format!("the signing secrets in the database: {why}"))
        })?;
        Ok(Some((entry.rev, all)))
    }

    /// Changes what is there now; of two nodes that do so at once, one looks again.
    fn change<T, E: From<Failure>>(
        &self,
        all: &mut All,
        change: impl Fn(&mut All) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = |why: String| E::from(Failure::failed(why));
        for _ in 0..SHARE_TRIES {
            let found = self.read()?;
            let expect = found.as_ref().map(|(rev, _)| *rev);
            let mut next = found.as_ref().map_or_else(|| all.clone(), |(_, theirs)| theirs.clone());
            let done = change(&mut next)?;
            // What did not change is not written: sealed again it would look different.
            let same = found.as_ref().is_some_and(|(_, theirs)| ids(theirs) == ids(&next));
            if let (Some(rev), true) = (expect, same) {
                self.rev.store(rev, Ordering::Relaxed);
                *all = next;
                return Ok(done);
            }
            let text = Some(Text::from(sealed(&self.key, &next).map_err(failed)?));
            let write = EntryChange { place: Shared::place(), expect, text };
            let written = self.store.change_entries(&[write]);
            match written.map_err(|_| failed("the store does not answer".to_string()))? {
                Changed::Made { rev } => {
                    self.rev.store(rev, Ordering::Relaxed);
                    *all = next;
                    return Ok(done);
                }
                Changed::Other { .. } => {}
            }
        }
        Err(failed("others change the signing secrets all the time".to_string()))
    }
}

/// Which secrets there are, and until when.
fn ids(all: &All) -> Vec<(u32, &str, Option<Time>)> {
    all.iter()
        .flat_map(|(namespace, here)| {
            here.iter().map(move |one| (*namespace, one.id.as_str(), one.expires))
        })
        .collect()
}

impl Secrets for Vault {
    fn of(&self, namespace: Namespace, now: Time) -> Result<Vec<Secret>, String> {
        let failed = |failure: Failure| format!("no signing secret: {}", failure.message);
        let secrets = || self.valid(namespace, now, |one| one.secret.clone());
        let mut valid = secrets().map_err(failed)?;
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
            valid = secrets().map_err(failed)?;
        }
        valid.truncate(SECRETS_MAX);
        Ok(valid)
    }
}

impl SigningSecrets for Vault {
    fn list(&self, namespace: Namespace, now: Time) -> Result<Vec<SigningSecret>, String> {
        // A namespace that has not sent anything yet gets its secret by being asked for it.
        self.of(namespace, now)?;
        let valid = self.valid(namespace, now, Known::clone).map_err(|failure| failure.message)?;
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
    opened(&MasterKey::read(data)?, &text).map_err(wrong)
}

/// What a text of sealed secrets holds.
fn opened(key: &MasterKey, text: &str) -> Result<All, String> {
    let stored: Stored = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if stored.version != 1 {
        return Err(format!("version {} is not known here", stored.version));
    }
    let time = |text: &str| timestamp::parse(text).ok().map(Time::from_micros);
    let mut all = All::new();
    for (namespace, entries) in stored.namespaces {
        let here = all.entry(namespace).or_default();
        for entry in entries {
            let id = &entry.id;
            let value = key.open(&about(namespace, id), &entry.sealed);
            let value = value.ok_or_else(|| format!("{id} does not open with its key"))?;
            let bad_time = || format!("{id} has a time that cannot be read");
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

fn sealed(key: &MasterKey, all: &All) -> Result<String, String> {
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
                sealed: sealed.ok_or_else(|| "it cannot be sealed".to_string())?,
            });
        }
        stored.namespaces.insert(*namespace, entries);
    }
    serde_json::to_string_pretty(&stored).map_err(|error| error.to_string())
}

fn write(data: &Path, key: &MasterKey, all: &All) -> Result<(), Failure> {
    let path = path(data);
    let wrong = |why: String| Failure::failed(format!("{}: {why}", path.display()));
    let text = sealed(key, all).map_err(wrong)?;
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
