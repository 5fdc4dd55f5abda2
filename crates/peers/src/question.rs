//! Other questions between nodes than letters: a request and its answer, whole or as a stream.

use crate::limits::{QUESTION_BYTES_MAX, QUESTION_TIMEOUT};
use crate::send::Peers;
use crate::wire::{Failed, Kept, body_of};
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use model::NodeId;

impl Peers {
    /// Asks one node and waits for its whole answer: status and body.
    pub async fn ask(
        &self,
        to: NodeId,
        address: &str,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<(u16, Bytes), Failed> {
        let response = self.stream(to, address, method, path, body).await?;
        let status = response.status().as_u16();
        Ok((status, body_of(response, QUESTION_BYTES_MAX, QUESTION_TIMEOUT).await?))
    }

    /// Asks one node on a connection of its own; the answer is read as it comes. Whoever drops it
    /// closes the connection.
    pub async fn stream(
        &self,
        to: NodeId,
        address: &str,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failed> {
        let line = self.line(to, address);
        let line = line.ok_or_else(|| Failed::NotHeard("this node is starting".to_string()))?;
        line.send(&mut Kept::default(), method, path, body).await
    }
}
