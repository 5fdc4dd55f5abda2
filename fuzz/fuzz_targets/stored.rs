//! Any bytes as what a database holds: no panic; a spec and ids that are accepted are written back so
//! that they are read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Bytes;
use store::codec::{encode, ids};

fuzz_target!(|data: &[u8]| {
    if let Some(spec) = encode::decode(data, Bytes::from(&b"payload"[..])) {
        let body = encode::encode(&spec).expect("what was read has a place");
        assert_eq!(encode::decode(&body, spec.payload.clone()), Some(spec));
    }
    if let Some(id) = ids::job_id(data) {
        assert_eq!(ids::job_bytes(id), data);
    }
    if let Some(id) = ids::run_id(data) {
        assert_eq!(ids::run_bytes(id), data);
    }
    if let Some(id) = ids::backlog_id(data) {
        assert_eq!(ids::backlog_id(&ids::backlog_bytes(id)), Some(id));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(group) = ids::group_of(text)
    {
        assert_eq!(ids::group_text(group.as_ref()), text);
    }
});
