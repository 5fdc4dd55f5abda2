//! Any text as a duration, a timestamp, a broker's URL or an id: no panic; what is accepted is written back so that it
//! is read as the same; an error has a column inside the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{JobId, RunId};
use wire::broker::{AMQP, BrokerUrl, MASK, REDIS, masked};
use wire::{duration, timestamp};

fuzz_target!(|text: &str| {
    let columns = text.chars().count() + 1;
    match duration::parse(text) {
        Ok(micros) => {
            assert!(micros >= 0);
            assert_eq!(duration::parse(&duration::format(micros)), Ok(micros));
        }
        Err(error) => assert!((1..=columns).contains(&error.column), "{error:?}"),
    }
    match timestamp::parse(text) {
        Ok(micros) => {
            let written = timestamp::format(micros);
            if let Ok(read) = timestamp::parse(&written) {
                // Written with milliseconds, rounded up.
                assert!((0..1_000).contains(&(read - micros)), "{text} {written}");
            }
        }
        Err(error) => assert!((1..=columns).contains(&error.column), "{error:?}"),
    }
    if let Some(job) = JobId::parse(text) {
        assert_eq!(JobId::parse(&job.to_string()), Some(job));
    }
    if let Some(run) = RunId::parse(text) {
        assert_eq!(run.to_string(), text);
    }
    for scheme in [REDIS, AMQP] {
        if let Ok(url) = BrokerUrl::parse(text, scheme)
            && url.password.is_some()
        {
            let shown = BrokerUrl::parse(&masked(text), scheme).expect("a URL still");
            assert_eq!((shown.password.as_deref(), &shown.host), (Some(MASK), &url.host));
        }
    }
    for id in [format!("job_{text}"), format!("run_{text}")] {
        let _ = (JobId::parse(&id), RunId::parse(&id));
    }
});
