//! What a store is and what it promises, for people.

/// As found now, or when it last answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAbout {
    /// `memory`, `sqlite`, `postgres`.
    pub kind: &'static str,
    /// What is safe when it has answered, in words.
    pub durability: String,
    /// Does it answer now?
    pub answers: bool,
    /// What the words rest on, as the store calls it.
    pub facts: Vec<(&'static str, String)>,
}

impl StoreAbout {
    /// A store inside the process.
    pub fn embedded(kind: &'static str, durability: &str) -> StoreAbout {
        StoreAbout { kind, durability: durability.to_string(), answers: true, facts: Vec::new() }
    }
}
