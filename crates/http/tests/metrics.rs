//! The names of metrics are promises: docs/metrics.md lists exactly those that are served.

use http_api::metrics::{Requests, render};
use http_api::table;
use model::{Span, Time};
use node::metrics::Metrics;
use std::path::Path;

const BEGIN: &str = "<!-- generated: names -->\n";
const END: &str = "<!-- end -->";

fn page() -> String {
    let (node, requests) = (Metrics::default(), Requests::of(&table()));
    node.fire_skew.observe(Span::from_millis(3));
    node.fire_skew.observe(Span::from_secs(3_600));
    requests.count(Some(0), 202, Span::from_millis(1));
    requests.count(None, 404, Span::from_millis(1));
    render(&node, &requests, &[], Time::from_secs(1))
}

#[test]
fn the_document_lists_every_name() {
    let mut names = String::from("| name | kind | what it tells |\n|---|---|---|\n");
    let page = page();
    let mut help = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').expect("help").1;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a kind");
            names.push_str(&format!("| `{name}` | {kind} | {help} |\n"));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(&path).expect("docs/metrics.md");
    let (before, rest) = text.split_once(BEGIN).expect("the place of the names");
    let (kept, after) = rest.split_once(END).expect("the end of the names");
    if std::env::var_os("DULY_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{names}{END}{after}")).expect("written");
        return;
    }
    assert!(
        kept == names,
        "docs/metrics.md has drifted; run: DULY_BLESS=1 cargo test -p http-api --test metrics"
    );
}

#[test]
fn the_page_is_well_formed() {
    let page = page();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.starts_with("duly_") || series.starts_with("process_"), "{line}");
        assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
    }
    for line in [
        "duly_fire_skew_seconds_bucket{le=\"0.0025\"} 0",
        "duly_fire_skew_seconds_bucket{le=\"0.005\"} 1",
        "duly_fire_skew_seconds_bucket{le=\"60\"} 1",
        "duly_fire_skew_seconds_bucket{le=\"+Inf\"} 2",
        "duly_fire_skew_seconds_sum 3600.003",
        "duly_fire_skew_seconds_count 2",
        "duly_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"2xx\"} 1",
        "duly_http_requests_total{method=\"any\",route=\"none\",status=\"4xx\"} 1",
    ] {
        assert!(page.lines().any(|one| one == line), "{line} is missing");
    }
}
