//! How two versions of a definition differ, as JSON pointers. Covered passwords are compared as they
//! are: that one was changed is told, and not to what.

use crate::definition;
use crate::limits::CHANGED_MAX;
use model::Spec;
use serde_json::Value;
use std::collections::BTreeSet;

pub fn paths(before: &Spec, after: &Spec) -> Vec<String> {
    let (old, new) = (definition::object(before), definition::object(after));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut all = Vec::new();
    for name in names {
        let at = format!("/{}", escaped(name));
        let mut found = Vec::new();
        compare(&at, old.get(name), new.get(name), &mut found);
        // A payload that became another one altogether is one change.
        if found.len() > CHANGED_MAX { all.push(at) } else { all.append(&mut found) }
    }
    // Bytes that read the same: spaces, or digits that a number cannot hold.
    let payload = |path: &String| path.starts_with("/payload");
    if before.payload != after.payload && !all.iter().any(payload) {
        all.push("/payload".to_string());
    }
    all
}

fn compare(at: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                compare(&format!("{at}/{}", escaped(name)), old.get(name), new.get(name), found);
            }
        }
        _ => found.push(at.to_string()),
    }
}

/// A name inside a JSON pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Broker, Namespace, Target, Time};
    use wire::Faults;
    use wire::job::JobRequest;

    fn spec(json: &str) -> Spec {
        let mut faults = Faults::default();
        let request = JobRequest::read(json, "", &mut faults);
        let spec = crate::spec::of(Namespace(0), request, Time::from_secs(1), "", &mut faults);
        spec.unwrap_or_else(|| panic!("{faults:?}"))
    }

    const BASE: &str = r#"{"target":{"worker":{"kind":"k"}},"schedule":{"every":"1h"},
        "payload":{"a":{"b":1,"c/d~":2},"list":[1,2]}}"#;

    #[test]
    fn each_change_is_named_where_it_is() {
        let base = spec(BASE);
        assert_eq!(paths(&base, &base), [""; 0]);
        for (from, to, expected) in [
            (r#""1h""#, r#""2h""#, vec!["/schedule/every"]),
            (r#""b":1"#, r#""b":2"#, vec!["/payload/a/b"]),
            (r#""c/d~":2"#, r#""c/d~":3"#, vec!["/payload/a/c~1d~0"]),
            (r#""b":1,"#, "", vec!["/payload/a/b"]),
            ("[1,2]", "[1,3]", vec!["/payload/list"]),
            ("[1,2]", "[1, 2]", vec!["/payload"]),
            (r#""kind":"k""#, r#""kind":"l""#, vec!["/target/worker/kind"]),
            (
                r#"{"every":"1h"}"#,
                r#"{"cron":"0 3 * * *"},"priority":7"#,
                vec!["/priority", "/schedule/cron", "/schedule/dst", "/schedule/every"],
            ),
        ] {
            assert!(BASE.contains(from), "{from}");
            assert_eq!(paths(&base, &spec(&BASE.replace(from, to))), expected, "{from} to {to}");
        }
    }

    #[test]
    fn another_payload_altogether_is_one_change() {
        let many = |n: u32| {
            let fields: Vec<String> = (0..100).map(|at| format!(r#""f{at}":{n}"#)).collect();
            spec(&BASE.replace(r#""b":1"#, &fields.join(",")))
        };
        assert_eq!(paths(&many(1), &many(2)), ["/payload"]);
    }

    #[test]
    fn a_covered_password_is_compared_and_not_shown() {
        let with = |password: &str| {
            let url = format!("redis://u:{password}@h").into();
            let broker = Broker::Redis { url, stream: "s".into(), max_len: None };
            Spec { target: Target::Publish(broker), ..spec(BASE) }
        };
        assert_eq!(paths(&with("one"), &with("two")), ["/target/publish/redis/url"]);
        let shown = definition::shown(&with("hidden"));
        assert!(!format!("{shown:?}").contains("hidden"), "{shown:?}");
        assert!(shown["target"].get().contains("redis://u:***@h"), "{shown:?}");
    }
}
