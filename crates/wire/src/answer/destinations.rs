//! What duly answers about where it sends to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, JsonSchema)]
pub struct Destinations {
    pub items: Vec<Destination>,
    pub next_cursor: Option<String>,
}

/// Where the runs of a namespace are sent to, and how it goes there. Nodes tell each other in this
/// form; in an answer it is what all of them know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Destination {
    /// Host and port.
    pub host: String,
    /// closed (runs are sent), open (they wait), half_open (one is sent to see how it goes). With
    /// several nodes the worst of them.
    pub state: String,
    /// Attempts under way.
    pub in_flight: u64,
    /// Runs that were kept back and have not been sent since, as far as they are counted.
    pub waiting: u64,
    /// Attempts that ended lately, and those that got no answer, 429 or 5xx.
    pub attempts: u64,
    pub failures: u64,
    /// failures ÷ attempts; 0 while there are none.
    pub failure_rate: f64,
    /// Since when it is not closed.
    pub opened_at: Option<String>,
    /// When the next run is sent to see how it goes. Null also while that one is under way.
    pub next_probe_at: Option<String>,
}

impl Destination {
    fn rank(&self) -> u8 {
        match self.state.as_str() {
            "open" => 2,
            "half_open" => 1,
            _ => 0,
        }
    }

    /// Adds what another node knows of the same destination.
    pub fn join(&mut self, other: &Destination) {
        if other.rank() > self.rank() {
            self.state.clone_from(&other.state);
        }
        self.in_flight += other.in_flight;
        self.waiting += other.waiting;
        self.attempts += other.attempts;
        self.failures += other.failures;
        // Texts of instants have one form, so the earlier one is the smaller one.
        let earlier = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        };
        self.opened_at = earlier(&self.opened_at, &other.opened_at);
        self.next_probe_at = earlier(&self.next_probe_at, &other.next_probe_at);
        self.rate();
    }

    /// Says the share of failures.
    pub fn rate(&mut self) {
        let share = self.failures as f64 / self.attempts.max(1) as f64;
        self.failure_rate = (share * 1_000.0).round() / 1_000.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_nodes_the_worst_state_counts_and_numbers_are_added() {
        let here = Destination {
            state: "closed".to_string(),
            in_flight: 2,
            attempts: 3,
            ..Destination::default()
        };
        let there = Destination {
            state: "open".to_string(),
            in_flight: 1,
            waiting: 7,
            attempts: 3,
            failures: 3,
            opened_at: Some("2027-01-01T00:00:00.000Z".to_string()),
            ..Destination::default()
        };
        let (mut one, mut other) = (here.clone(), there.clone());
        one.join(&there);
        other.join(&here);
        assert_eq!(one, other, "whoever is asked says the same");
        assert_eq!((one.state.as_str(), one.in_flight, one.waiting), ("open", 3, 7));
        assert!((one.failure_rate - 0.5).abs() < 1e-9);
    }
}
