//! API keys: `duly_<id>_<secret>`. The id finds the key, the secret proves it.
//!
//! Only the SHA-256 of the secret is kept. A slow hash would add nothing: the secret is 32 random
//! bytes, not a word that a person chose, so nobody can guess it from its hash. Hashes are compared
//! in constant time.
//!
//! Once a key was made, every request needs one, also on loopback and also when all are revoked. Keys
//! are entries of the catalog; a ring of them in memory answers each request without the store and is
//! replaced in the moment a key is made or revoked, here or, by a letter, at another node. Letters may
//! be lost, so it is read again every few seconds, and when a key comes that is not in it.

use crate::Api;
use crate::key_quota::KeyQuota;
use crate::limits::{KEYS_AGAIN, KEYS_EVERY, KEYS_MAX};
use crate::refusal::Refusal;
use crate::route::Scope;
use hyper::StatusCode;
use model::{KeyId, Namespace, Span, Text, Time};
use node::{NodeHandle, Reading};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use store::catalog::{Changed, Entry, EntryChange, Kind, List, Place};
use subtle::ConstantTimeEq;

const SECRET_BYTES: usize = 32;
const ID_CHARS: usize = 12;

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// What it is found by; where it is kept, not part of what is kept.
    #[serde(skip)]
    pub id: String,
    /// SHA-256 of the secret, in hex.
    hash: String,
    pub scope: Scope,
    /// None: an admin of all namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// Microseconds since 1970.
    pub created: i64,
    pub revoked: Option<i64>,
    #[serde(flatten)]
    pub quota: KeyQuota,
}

/// A key that was just made: the only moment in which its secret is known.
#[derive(Debug)]
pub struct Minted {
    pub id: String,
    pub text: String,
    pub key: Key,
}

/// What a new key shall be.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub scope: Scope,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub quota: KeyQuota,
}

pub fn mint(wanted: Wanted, id: Option<String>, now: Time) -> Minted {
    let mut secret = [0; SECRET_BYTES];
    node::random::fill(&mut secret);
    let id = id.unwrap_or_else(|| {
        let mut bytes = [0; ID_CHARS / 2];
        node::random::fill(&mut bytes);
        hex(&bytes)
    });
    let secret = hex(&secret);
    // Only an admin may be one of all namespaces.
    let namespace = match (wanted.namespace, wanted.scope) {
        (None, Scope::Admin) => None,
        (given, _) => Some(given.unwrap_or_else(|| node::namespaces::DEFAULT_NAME.to_string())),
    };
    let key = Key {
        id: id.clone(),
        hash: hash(&secret),
        scope: wanted.scope,
        namespace,
        name: wanted.name,
        created: now.micros(),
        revoked: None,
        quota: wanted.quota,
    };
    Minted { text: format!("duly_{id}_{secret}"), id, key }
}

/// The same request gets the same id, so that a repeated one finds the key made.
pub fn id_of_request(idempotency_key: &str) -> String {
    hash(idempotency_key).chars().take(ID_CHARS).collect()
}

/// The change that writes this key where `former` stands.
pub fn change(id: &str, key: &Key, former: Option<u64>) -> EntryChange {
    let text = serde_json::to_string(key).unwrap_or_default();
    EntryChange { place: place(id), expect: former, text: Some(Text::from(text)) }
}

pub fn place(id: &str) -> Place {
    Place { kind: Kind::ApiKey, namespace: Namespace(0), name: Text::from(id) }
}

pub fn list() -> List {
    List { kind: Kind::ApiKey, namespace: None, after: None, limit: KEYS_MAX }
}

pub fn of_entry(entry: &Entry) -> Option<(String, Key)> {
    let key: Key = serde_json::from_str(&entry.text).ok()?;
    let id = entry.place.name.to_string();
    Some((id.clone(), Key { id, ..key }))
}

fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Key {
    pub fn is_revoked(&self) -> bool {
        self.revoked.is_some()
    }

    fn is_proven_by(&self, secret: &str) -> bool {
        bool::from(hash(secret).as_bytes().ct_eq(self.hash.as_bytes()))
    }

    pub fn may(&self, scope: Scope) -> bool {
        match scope {
            Scope::Open => true,
            Scope::Read => matches!(self.scope, Scope::Read | Scope::Submit | Scope::Admin),
            wanted => self.scope == wanted || self.scope == Scope::Admin,
        }
    }

    /// May it act on keys of this namespace?
    pub fn rules(&self, other: &Key) -> bool {
        self.namespace.is_none() || self.namespace == other.namespace
    }
}

/// The keys in memory.
#[derive(Debug, Default)]
pub struct Ring {
    keys: RwLock<Arc<BTreeMap<String, Arc<Key>>>>,
    /// Does one of them have a quota of what there is?
    counts: AtomicBool,
    /// When a key that is not known was last looked for, in microseconds of the store's clock.
    looked: AtomicI64,
}

impl Ring {
    pub fn all(&self) -> Arc<BTreeMap<String, Arc<Key>>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does every request need a key?
    pub fn is_closed(&self) -> bool {
        !self.all().is_empty()
    }

    /// May there be jobs that count for a key?
    pub fn counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    /// The key that jobs were made with.
    pub fn by_id(&self, id: KeyId) -> Option<Arc<Key>> {
        self.all().get(&id.to_string()).cloned()
    }

    /// As the catalog has them now.
    pub async fn load(&self, node: &NodeHandle) -> Result<(), Reading> {
        self.fill(&node.list_entries(list()).await?);
        Ok(())
    }

    /// A key is not known here: another node may have made it. Looks at most so often; false if it
    /// did not.
    pub async fn look(&self, node: &NodeHandle) -> bool {
        let now = node.now();
        let last = Time::from_micros(self.looked.load(Ordering::Relaxed));
        let pause = now.since(last);
        if pause >= Span::ZERO && pause < KEYS_AGAIN {
            return false;
        }
        self.looked.store(now.micros(), Ordering::Relaxed);
        self.load(node).await.is_ok()
    }

    pub fn fill(&self, entries: &[Entry]) {
        let keys = entries.iter().filter_map(of_entry).map(|(id, key)| (id, Arc::new(key)));
        let keys: BTreeMap<_, _> = keys.collect();
        self.counts.store(keys.values().any(|key| key.quota.counts()), Ordering::Relaxed);
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// The key behind an Authorization header. Every failure is told the same way.
    pub fn open(&self, header: Option<&str>) -> Result<Arc<Key>, Refusal> {
        let given = header.and_then(|header| {
            let (kind, text) = header.split_once(' ')?;
            kind.eq_ignore_ascii_case("bearer").then_some(text.trim())
        });
        let found = given.and_then(|text| {
            let (id, secret) = text.strip_prefix("duly_")?.split_once('_')?;
            let key = self.all().get(id).cloned()?;
            (key.is_proven_by(secret) && !key.is_revoked()).then_some(key)
        });
        found.ok_or_else(|| {
            let detail = match header {
                None => "an API key is needed: Authorization: Bearer duly_<id>_<secret>",
                Some(_) => "this API key is not known, or it was revoked",
            };
            Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        })
    }
}

/// Keeps the ring as the store has it, for the life of the process: other nodes change keys, too.
pub async fn follow(api: Arc<Api>) {
    let mut loaded = None;
    loop {
        let told = tokio::select! {
            () = api.node.keys_changed() => true,
            () = tokio::time::sleep(KEYS_EVERY) => false,
            () = api.node.events().closed() => return,
        };
        // Looked at before the keys are: what changes in between is a later revision.
        let seen = api.node.catalog_rev();
        if !told && seen.is_some() && seen == loaded {
            continue;
        }
        // A store that does not answer leaves what is known.
        if api.ring.load(&api.node).await.is_ok() {
            loaded = seen;
        }
    }
}

/// Writes a key and takes it into the ring. False: another one stands there.
pub async fn write(
    node: &NodeHandle,
    ring: &Ring,
    id: &str,
    key: &Key,
    former: Option<u64>,
) -> Result<bool, Reading> {
    let changed = node.change_entries(vec![change(id, key, former)]).await?;
    ring.load(node).await?;
    node.tell_changed(node::Changed::Keys);
    Ok(matches!(changed, Changed::Made { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(minted: &[&Minted]) -> Ring {
        let ring = Ring::default();
        let entries: Vec<Entry> = minted
            .iter()
            .map(|one| Entry {
                place: place(&one.id),
                rev: 1,
                at: Time::MIN,
                text: change(&one.id, &one.key, None).text.expect("a text"),
            })
            .collect();
        ring.fill(&entries);
        ring
    }

    fn minted(scope: Scope, namespace: Option<&str>) -> Minted {
        let namespace = namespace.map(str::to_string);
        let wanted = Wanted { scope, namespace, name: None, quota: KeyQuota::default() };
        mint(wanted, None, Time::from_secs(1))
    }

    #[test]
    fn a_key_opens_and_nothing_near_it_does() {
        let key = minted(Scope::Submit, None);
        let mut gone = minted(Scope::Admin, None);
        gone.key.revoked = Some(2);
        let ring = ring(&[&key, &gone]);
        let bearer = format!("Bearer {}", key.text);
        assert_eq!(ring.open(Some(&bearer)).expect("open").scope, Scope::Submit);
        assert!(ring.open(Some(&format!("bearer  {}", key.text))).is_ok());
        let near = &key.text[..key.text.len() - 1];
        for bad in [
            key.text.clone(),
            format!("Bearer {near}"),
            format!("Bearer {near}g"),
            format!("Bearer {}0", key.text),
            format!("Basic {}", key.text),
            format!("Bearer {}", gone.text),
            format!("Bearer duly_{}_", key.id),
            format!("Bearer duly_{}", key.id),
            "Bearer ".to_string(),
            "Bearer duly__".to_string(),
        ] {
            let refusal = ring.open(Some(&bad)).expect_err(&bad);
            assert_eq!(refusal.status, 401, "{bad}");
            assert!(!refusal.detail.contains(&key.id), "{}", refusal.detail);
        }
        assert_eq!(ring.open(None).expect_err("no key").code, "unauthorized");
    }

    #[test]
    fn the_secret_is_not_kept() {
        let key = minted(Scope::Read, None);
        let secret = key.text.rsplit('_').next().expect("a secret");
        assert_eq!(secret.len(), 2 * SECRET_BYTES);
        let kept = serde_json::to_string(&key.key).expect("JSON");
        assert!(!kept.contains(secret), "{kept}");
        assert!(!format!("{:?}", key.key).contains(secret));
    }

    #[test]
    fn scopes_and_namespaces() {
        use Scope::{Admin, Open, Read, Submit, Worker};
        for (scope, may) in [
            (Admin, &[Open, Read, Submit, Worker, Admin][..]),
            (Submit, &[Open, Read, Submit]),
            (Read, &[Open, Read]),
            (Worker, &[Open, Worker]),
        ] {
            let key = minted(scope, None).key;
            for wanted in [Open, Read, Submit, Worker, Admin] {
                assert_eq!(key.may(wanted), may.contains(&wanted), "{scope:?} {wanted:?}");
            }
        }
        assert_eq!(minted(Submit, None).key.namespace.as_deref(), Some("default"));
        assert_eq!(minted(Admin, None).key.namespace, None);
        let (a, all) = (minted(Admin, Some("a")).key, minted(Admin, None).key);
        assert!(all.rules(&a) && a.rules(&a) && !a.rules(&all));
    }
}
