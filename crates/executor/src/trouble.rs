//! Why there is no answer.

use std::error::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The attempt's time is over.
    Timeout,
    /// Will not go better next time.
    Refused(String),
    Failed(String),
    /// Connected, asked, and heard nothing for too long.
    Silent(String),
}

impl Trouble {
    /// With its causes: the outermost words alone ("connection error") help nobody.
    pub fn connection(error: &dyn Error) -> Trouble {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let more = inner.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = inner.source();
        }
        Trouble::Failed(format!("the connection failed: {text}"))
    }
}
