//! A merge patch (RFC 7396), and the one thing it cannot say: that one kind of schedule or target takes
//! the place of another.

use serde_json::{Map, Value};

/// Where the patch names another kind, the old one goes with what belongs to it.
pub fn replace_kind(
    whole: &mut Map<String, Value>,
    field: &str,
    patch: &Map<String, Value>,
    kinds: &[&str],
) {
    let new_kind = kinds.iter().any(|kind| patch.get(*kind).is_some_and(|value| !value.is_null()));
    if new_kind && let Some(Value::Object(old)) = whole.get_mut(field) {
        let other = |kind: &&&str| !patch.contains_key(**kind);
        kinds.iter().filter(other).for_each(|kind| drop(old.remove(*kind)));
        if !patch.contains_key("cron") {
            old.retain(|field, _| field != "timezone" && field != "dst");
        }
    }
}

/// RFC 7396: objects are merged, null removes, anything else replaces.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_does_what_the_rfc_says() {
        // The cases of RFC 7396, appendix A.
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, &patch);
            assert_eq!(merged, result, "{target} with {patch}");
        }
    }
}
