//! The shapes of requests agree with their readers.

use serde_json::json;
use wire::job::JobRequest;
use wire::shape::describe;
use wire::work::{ClaimRequest, read_settles};
use wire::{Faults, Object};

#[test]
fn a_job_describes_itself() {
    let shape = describe(|text, faults| {
        JobRequest::read(text, "", faults);
    });
    assert_eq!(shape["required"], json!(["target"]));
    assert_eq!(shape["additionalProperties"], false);
    let properties = &shape["properties"];
    assert_eq!(properties["priority"]["maximum"], 9);
    assert!(properties["priority"].get("enum").is_none(), "{properties}");
    assert_eq!(
        properties["overlap"]["enum"],
        json!(["queue_one", "skip", "allow", "cancel_running", null])
    );
    let target = &properties["target"];
    assert_eq!(target["type"], "object", "required, so never null");
    assert_eq!(target["oneOf"][1]["required"], json!(["worker"]));
    assert_eq!(target["properties"]["http"]["required"], json!(["url"]));
    assert_eq!(target["properties"]["worker"]["required"], json!(["kind"]));
    let schedule = &properties["schedule"]["properties"];
    for name in ["at", "delay", "every", "cron", "timezone", "dst", "max_runs"] {
        assert!(schedule[name].is_object(), "{name}: {schedule}");
    }
    assert_eq!(schedule["dst"]["properties"]["gap"]["enum"], json!(["run", "skip", null]));
}

#[test]
fn what_only_one_outcome_needs_is_found_and_is_not_required() {
    let shape = describe(|text, faults| {
        read_settles(text, faults);
    });
    assert_eq!(shape["required"], json!(["runs", "worker"]));
    let item = &shape["properties"]["runs"]["items"];
    assert_eq!(item["required"], json!(["outcome", "run_id", "token"]));
    for name in ["output", "error", "retryable", "retry_after", "until"] {
        assert!(item["properties"][name].is_object(), "{name}: {item}");
    }
    let claim = describe(|text, faults| {
        ClaimRequest::read(text, faults);
    });
    assert_eq!(claim["required"], json!(["queues", "worker"]));
}

#[test]
fn a_described_reader_reads_as_before() {
    let text = r#"{"target":{"worker":{"kind":"k"}},"schedule":{"delay":"1s"}}"#;
    let mut faults = Faults::default();
    let job = JobRequest::read(text, "", &mut faults);
    assert!(faults.is_empty(), "{faults:?}");
    assert!(job.target.is_some());
    for (text, pointer) in [
        (r#"{"target":{"worker":{"kind":"k"},"http":{"url":"http://x/"}}}"#, "/target"),
        (r#"{"target":{}}"#, "/target"),
        (r#"{"target":{"worker":{"kind":"k"}},"schedule":{}}"#, "/schedule"),
        (r#"{"target":{"worker":{"kind":"k"}},"schedule":{"at":null}}"#, "/schedule"),
    ] {
        let mut faults = Faults::default();
        JobRequest::read(text, "", &mut faults);
        assert!(faults.at(pointer), "{text}: {faults:?}");
    }
    // Alternatives are known fields, and the fault lists them.
    let mut faults = Faults::default();
    let mut object = Object::read(r#"{"b":1}"#, "", &mut faults).expect("an object");
    assert_eq!(object.one_of(&["a", "b"], &mut faults), Some("b"));
    object.finish(&mut faults);
    assert!(faults.is_empty());
}
