//! What duly answers about webhooks: signing secrets, and targets that were tried.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
pub struct SigningSecrets {
    /// Those that sign now, the newest first.
    pub items: Vec<SigningSecret>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SigningSecret {
    pub id: String,
    /// `whsec_…`
    pub secret: String,
    pub created_at: String,
    /// It signs until then; null: until it is rotated away.
    pub expires_at: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TargetTested {
    /// What the receiver saw as `X-Run-Id`.
    pub id: String,
    /// What the answer would have meant for a run.
    pub run_status: &'static str,
    pub status: Option<u16>,
    pub duration_ms: i64,
    /// The beginning of the answer's body.
    pub body: String,
    /// Why there was no answer.
    pub error: Option<String>,
}
