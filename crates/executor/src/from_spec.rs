//! What a definition says to the executor beyond its target. The one place that knows which fields
//! of a spec those are.

use model::Spec;

/// Answers that trying again does not change, unless the job has a list of its own.
const PERMANENT: [u16; 8] = [400, 405, 410, 413, 414, 415, 422, 501];

pub fn permanent(spec: &Spec) -> &[u16] {
    spec.permanent.as_deref().unwrap_or(&PERMANENT)
}

pub fn request_id(spec: &Spec) -> Option<&str> {
    spec.request_id.as_deref()
}

pub fn usual() -> &'static [u16] {
    &PERMANENT
}
