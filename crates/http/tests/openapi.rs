//! docs/openapi.json is what is served, and the table of routes is in order.

use http_api::{Twice, openapi, table};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_checked_in_document_is_the_served_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("DULY_BLESS").is_some() {
        std::fs::write(&path, openapi::text()).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == openapi::text(),
        "docs/openapi.json has drifted; look at the change and run: \
         DULY_BLESS=1 cargo test -p http-api --test openapi"
    );
}

#[test]
fn every_route_says_what_it_is() {
    let (mut seen, mut ids) = (BTreeSet::new(), BTreeSet::new());
    let document: Value = serde_json::from_str(openapi::text()).expect("JSON");
    for route in table() {
        let name = format!("{} {}", route.method, route.path);
        assert!(seen.insert(name.clone()), "{name} is there twice");
        assert!(route.summary.ends_with(['.', '?']) && route.summary.len() > 5, "{name}");
        let reads = ["GET", "HEAD"].contains(&route.method.as_str());
        assert!(!reads || route.twice == Twice::Reads, "{name}: a GET changes nothing");
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        let id = operation["operationId"].as_str().expect("an operation id").to_string();
        assert!(ids.insert(id.clone()), "{id} is there twice");
        assert!(operation["responses"][route.status.to_string()].is_object(), "{name}");
    }
    assert!(seen.len() > 15);
}

#[test]
fn every_reference_leads_somewhere() {
    let document: Value = serde_json::from_str(openapi::text()).expect("JSON");
    let mut open = vec![&document];
    let mut found = 0;
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    let target = to.strip_prefix('#').and_then(|to| document.pointer(to));
                    assert!(target.is_some(), "{to} leads nowhere");
                    found += 1;
                }
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    assert!(found > 50, "{found}");
}
