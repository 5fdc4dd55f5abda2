//! Where signing secrets come from. The executor asks for each webhook anew: a rotation needs no
//! restart. Who keeps them, and how, is not its affair.

use crate::sign::Secret;
use model::{Namespace, Time};
use std::fmt::Debug;

pub trait Secrets: Debug + Send + Sync {
    /// Those that are valid now, the newest first, at most `SECRETS_MAX`. Never empty.
    fn of(&self, namespace: Namespace, now: Time) -> Result<Vec<Secret>, String>;
}
