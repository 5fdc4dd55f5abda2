//! Outboxes; there are few, and their names are in the configuration.

use super::{Page, seconds};
use crate::outbox;
use model::Time;
use node::metrics::Histogram;
use std::sync::Arc;

pub(super) fn write(page: &mut Page, outboxes: &[Arc<outbox::State>], now: Time) {
    let labels: Vec<[(&str, &str); 1]> =
        outboxes.iter().map(|one| [("source", one.name.as_str())]).collect();
    for (name, help, read) in [
        (
            "duly_outbox_delivered_total",
            "Jobs submitted from an outbox.",
            (|one| one.delivered.get()) as fn(&outbox::State) -> u64,
        ),
        (
            "duly_outbox_refused_total",
            "Jobs of an outbox that were refused and moved aside.",
            |one| one.refused.get(),
        ),
    ] {
        page.head(name, "counter", help);
        for (one, labels) in outboxes.iter().zip(&labels) {
            page.sample(name, labels, read(one));
        }
    }
    page.head("duly_outbox_reading", "gauge", "1 on the node that reads the outbox.");
    for (one, labels) in outboxes.iter().zip(&labels) {
        page.sample("duly_outbox_reading", labels, u64::from(one.seen().reading));
    }
    let name = "duly_outbox_waiting";
    page.head(
        name,
        "gauge",
        "Jobs that wait in an outbox, on the node that reads it (10001: or more).",
    );
    for (one, labels) in outboxes.iter().zip(&labels) {
        let seen = one.seen().clone();
        if let Some(look) = seen.look.filter(|_| seen.reading) {
            page.sample(name, labels, look.waiting);
        }
    }
    let name = "duly_outbox_oldest_seconds";
    page.head(name, "gauge", "How long the oldest of them has waited.");
    for (one, labels) in outboxes.iter().zip(&labels) {
        let reading = one.seen().reading;
        if let Some(age) = one.oldest(now).filter(|_| reading) {
            page.sample(name, labels, seconds(age.micros().max(0).unsigned_abs()));
        }
    }
    let each: Vec<(&[(&str, &str)], &Histogram)> = labels
        .iter()
        .zip(outboxes)
        .map(|(labels, one)| (labels.as_slice(), &one.latency))
        .collect();
    page.histogram(
        "duly_outbox_delivery_seconds",
        "From the call in the user's transaction until the job was durable here.",
        &each,
    );
}
