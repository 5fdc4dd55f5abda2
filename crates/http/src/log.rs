//! One log line per request: at debug when it was answered, at warn when it was refused (for a quota at
//! debug). Ids only: never a body, a parameter or a header.

use crate::quota::OVER_QUOTA;
use crate::refusal::Refusal;
use axum::extract::Request;
use axum::response::Response;
use hyper::Method;
use hyper::header::LOCATION;
use model::Span;

/// What is known of a request before it is answered.
pub struct Line<'a> {
    method: Method,
    path: String,
    request_id: &'a str,
}

/// A path that nobody made on purpose is longer than this.
const PATH_SHOWN: usize = 256;

impl<'a> Line<'a> {
    pub fn of(request: &Request, request_id: &'a str) -> Line<'a> {
        let path = request.uri().path().chars().take(PATH_SHOWN).collect();
        Line { method: request.method().clone(), path, request_id }
    }

    pub fn write(&self, response: &Response, refusal: Option<&Refusal>, took: Span) {
        let status = response.status().as_u16();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let (job, run) = ids(&self.path, location);
        let (method, path, request_id) =
            (self.method.as_str(), self.path.as_str(), self.request_id);
        let micros = took.micros();
        let code = refusal.map(|refusal| refusal.code);
        match status {
            500.. => {
                tracing::warn!(request_id, method, path, status, code, job, run, micros, "failed")
            }
            // Counted, not told: who asks too much shall not fill a disk as well.
            429 if code == Some(OVER_QUOTA) => {
                tracing::debug!(request_id, method, path, status, code, micros, "refused");
            }
            400..500 => {
                tracing::warn!(request_id, method, path, status, code, job, run, micros, "refused");
            }
            _ => tracing::debug!(request_id, method, path, status, job, run, micros, "answered"),
        }
    }
}

/// The job and the run that the address names, or that was made.
fn ids<'a>(path: &'a str, location: Option<&'a str>) -> (Option<&'a str>, Option<&'a str>) {
    let named = |under: &str| {
        let paths = location.into_iter().chain([path]);
        let mut rests = paths.filter_map(|path| path.strip_prefix(under));
        rests.find_map(|rest| rest.split('/').next().filter(|id| id.contains('_')))
    };
    (named("/v1/jobs/"), named("/v1/runs/"))
}

#[cfg(test)]
mod tests {
    use super::ids;

    #[test]
    fn the_ids_of_a_request_are_found() {
        assert_eq!(ids("/v1/jobs/job_1/pause", None), (Some("job_1"), None));
        assert_eq!(ids("/v1/jobs", Some("/v1/jobs/job_2")), (Some("job_2"), None));
        assert_eq!(ids("/v1/runs/run_3/cancel", None), (None, Some("run_3")));
        assert_eq!(ids("/v1/jobs/batch", None), (None, None));
    }
}
