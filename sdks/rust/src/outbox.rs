//! Jobs inside your own PostgreSQL transactions: committed is submitted once, rolled back is never.
//!
//! The database needs `duly outbox install`, and the server `--outbox`. This crate has no driver of its own: a
//! [`Submission`] is a statement and its two parameters, for whichever driver has your transaction.
//!
//! ```
//! use duly_client::{JobRequest, outbox::Submission};
//!
//! # fn f() -> Result<(), duly_client::Error> {
//! let mail = Submission::of(&JobRequest::worker("send-mail").queue("mails"))?;
//! // tokio-postgres:
//! //   transaction.query_one(mail.sql(), &[&mail.job(), &mail.is_ordered()]).await?.get::<_, i64>(0)
//! // sqlx:
//! //   sqlx::query_scalar::<_, i64>(outbox::SUBMIT).bind(mail.job()).bind(mail.is_ordered()).fetch_one(&mut *tx).await?
//! # Ok(())
//! # }
//! ```

use crate::error::Error;
use crate::limits::{OUTBOX_JOB_BYTES_MAX, SCHEMA_NAME_MAX};
use crate::types::JobRequest;
use std::borrow::Cow;

/// The statement of a [`Submission`] whose schema is `duly_outbox`, for drivers that want to see a constant. Its
/// answer is one row with the job's number in the outbox, a `bigint`.
pub const SUBMIT: &str = "SELECT duly_outbox.submit($1::text, $2::boolean) AS id";

/// A job that is submitted when your transaction commits: a statement, and what it is given.
#[derive(Clone, Debug)]
pub struct Submission {
    sql: Cow<'static, str>,
    job: String,
    ordered: bool,
}

impl Submission {
    /// This job. What duly would refuse is refused later, and moved aside with the reason; what is no JSON, or too
    /// large for the outbox, is refused here, before it breaks your transaction.
    pub fn of(job: &JobRequest) -> Result<Submission, Error> {
        let job = serde_json::to_string(job)
            .map_err(|error| Error::Invalid(format!("the job is no JSON: {error}")))?;
        if job.len() > OUTBOX_JOB_BYTES_MAX {
            let (has, most) = (job.len(), OUTBOX_JOB_BYTES_MAX);
            let say = format!("the job has {has} bytes, and the outbox takes {most}");
            return Err(Error::Invalid(format!("{say}: keep large payloads in a table of yours")));
        }
        Ok(Submission { sql: Cow::Borrowed(SUBMIT), job, ordered: false })
    }

    /// Transactions that submit to the same queue and group wait for each other, and come in the order of their
    /// commits.
    pub fn ordered(mut self) -> Submission {
        self.ordered = true;
        self
    }

    /// The schema that `duly outbox install --schema` was given.
    pub fn schema(mut self, name: &str) -> Result<Submission, Error> {
        let fits = |(at, byte): (usize, u8)| {
            byte == b'_' || byte.is_ascii_lowercase() || (at > 0 && byte.is_ascii_digit())
        };
        let is_name =
            !name.is_empty() && name.len() <= SCHEMA_NAME_MAX && name.bytes().enumerate().all(fits);
        if !is_name {
            let wanted = "1 to 63 lower-case letters, digits and _, no digit first";
            return Err(Error::Invalid(format!("schema {name:?}: {wanted}, are expected")));
        }
        self.sql = Cow::Owned(SUBMIT.replacen("duly_outbox", name, 1));
        Ok(self)
    }

    /// The statement, with `$1` and `$2` for [`Submission::job`] and [`Submission::is_ordered`].
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The first parameter: the job as JSON, a `text`.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The second parameter, a `boolean`.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }
}

#[cfg(test)]
mod tests {
    use super::{SUBMIT, Submission};
    use crate::types::JobRequest;

    #[test]
    fn only_a_plain_name_becomes_part_of_the_statement() {
        let one = Submission::of(&JobRequest::worker("k")).unwrap();
        assert_eq!((one.sql(), one.is_ordered()), (SUBMIT, false));
        let own = one.clone().schema("shop_1").unwrap().ordered();
        assert_eq!(own.sql(), "SELECT shop_1.submit($1::text, $2::boolean) AS id");
        assert!(own.is_ordered());
        for bad in ["", "a;b", "Shop", "1a", &"a".repeat(64)] {
            let said = one.clone().schema(bad).unwrap_err().to_string();
            assert!(said.contains("lower-case"), "{said}");
        }
    }

    #[test]
    fn a_job_that_the_outbox_would_refuse_is_refused_before() {
        let large = JobRequest::worker("k").payload("x".repeat(1_024 * 1_024));
        let said = Submission::of(&large).unwrap_err().to_string();
        assert!(said.contains("1048576") && said.contains("table of yours"), "{said}");
    }
}
