//! Lengths and instants as the interface writes them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// A length of time: from a [`Duration`], or text such as `1h30m`, `20s` or `250ms`. The server says
/// what is wrong with a text that is no length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Length(String);

impl Length {
    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Duration> for Length {
    fn from(length: Duration) -> Length {
        let micros = length.as_micros();
        Length(if micros.is_multiple_of(1_000) {
            format!("{}ms", micros / 1_000)
        } else {
            format!("{micros}us")
        })
    }
}

impl From<&str> for Length {
    fn from(text: &str) -> Length {
        Length(text.to_string())
    }
}

impl From<String> for Length {
    fn from(text: String) -> Length {
        Length(text)
    }
}

/// An instant: from a [`SystemTime`], or text with an offset such as `2027-03-28T02:00:00Z`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct When(String);

impl When {
    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SystemTime> for When {
    fn from(at: SystemTime) -> When {
        // What no calendar can write is farther than any job may be.
        let past = if at < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
        When(Timestamp::try_from(at).unwrap_or(past).to_string())
    }
}

impl From<&str> for When {
    fn from(text: &str) -> When {
        When(text.to_string())
    }
}

impl From<String> for When {
    fn from(text: String) -> When {
        When(text)
    }
}

/// An instant of an answer.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Length, When};
    use std::time::{Duration, SystemTime};

    #[test]
    fn lengths_and_instants_are_written_as_the_server_reads_them() {
        assert_eq!(Length::from(Duration::from_millis(90_500)).as_str(), "90500ms");
        assert_eq!(Length::from(Duration::from_micros(250)).as_str(), "250us");
        assert_eq!(Length::from("1h30m").as_str(), "1h30m");
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_893_456_000_250);
        assert_eq!(When::from(at).as_str(), "2030-01-01T00:00:00.25Z");
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 50);
        assert!(When::from(far).as_str().starts_with("9999-"));
    }
}
