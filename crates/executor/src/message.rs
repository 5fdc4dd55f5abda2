//! What is said about a run besides its payload, whatever carries it: the names are those of the
//! webhook's headers.

use model::Time;

#[derive(Debug)]
pub struct Message<'a> {
    pub payload: &'a [u8],
    pub content_type: &'a str,
    pub job: String,
    /// The same on every attempt: receivers recognise repetitions by it.
    pub run: String,
    pub attempt: u16,
    pub token: u64,
    pub scheduled_for: Time,
    pub request_id: String,
    pub now: Time,
}

impl Message<'_> {
    pub fn traceparent(&self) -> String {
        wire::trace::parent(&self.run, self.token)
    }

    /// Without the payload and its content type, which brokers have places of their own for.
    pub fn fields(&self) -> [(&'static str, String); 7] {
        [
            ("webhook-id", self.run.clone()),
            ("x-job-id", self.job.clone()),
            ("x-attempt", self.attempt.to_string()),
            ("x-fencing-token", self.token.to_string()),
            ("x-scheduled-for", wire::timestamp::format(self.scheduled_for.micros())),
            ("x-request-id", self.request_id.clone()),
            ("traceparent", self.traceparent()),
        ]
    }
}
