//! One request to try a target with: signed and vetted like a webhook, of no run, settled nowhere.

use crate::client::Client;
use crate::connection::Until;
use crate::from_spec;
use crate::place::Place;
use crate::request::Saying;
use crate::secrets::Secrets;
use crate::trouble::Trouble;
use crate::verdict;
use hyper::Uri;
use model::{Bytes, Namespace, Span, Text, Time};
use node::clock::BootClock;
use shard::command::End;

#[derive(Debug)]
pub struct Probe {
    pub namespace: Namespace,
    pub url: String,
    pub method: String,
    pub headers: Vec<(Text, Text)>,
    pub payload: Bytes,
    /// Tells the receiver, in place of a run's id, that this is a test.
    pub id: String,
    pub request_id: String,
    pub timeout: Span,
    pub now: Time,
}

#[derive(Debug, Default)]
pub struct Probed {
    pub code: Option<u16>,
    pub body: Vec<u8>,
    pub took: Span,
    /// Why there is no answer.
    pub error: Option<String>,
    /// What it would have meant for a run: succeeded, retried, dead.
    pub meaning: &'static str,
}

impl Probe {
    pub async fn send(self, client: &Client, secrets: &dyn Secrets) -> Probed {
        let began = BootClock.local();
        let said = self.exchange(client, secrets).await;
        let took = BootClock.local().since(began);
        let (code, body, error) = match &said {
            Ok(heard) => (Some(heard.code), heard.body.clone(), None),
            Err(Trouble::Timeout) => (None, Vec::new(), Some("no answer in time".to_string())),
            Err(Trouble::Refused(why) | Trouble::Failed(why) | Trouble::Silent(why)) => {
                (None, Vec::new(), Some(why.clone()))
            }
        };
        let meaning = match verdict::of(said, from_spec::usual()) {
            End::Succeeded { .. } => "succeeded",
            End::Failed { retryable: false, .. } => "dead",
            _ => "retrying",
        };
        Probed { code, body, took, error, meaning }
    }

    async fn exchange(
        &self,
        client: &Client,
        secrets: &dyn Secrets,
    ) -> Result<crate::answer::Heard, Trouble> {
        let uri: Uri =
            self.url.parse().map_err(|_| Trouble::Refused(format!("{} is not a URL", self.url)))?;
        let place = Place::of(&uri).map_err(Trouble::Refused)?;
        let saying = Saying {
            method: &self.method,
            headers: &self.headers,
            content_type: "application/json",
            payload: &self.payload,
            namespace: self.namespace,
            job: "test".to_string(),
            run: self.id.clone(),
            attempt: 1,
            token: 0,
            scheduled_for: self.now,
            request_id: self.request_id.clone(),
            now: self.now,
        };
        let make = || saying.request(&uri, secrets);
        let request = make().map_err(Trouble::Failed)?;
        client.send(&place, request, make, Until::after(self.timeout), self.now).await
    }
}
