//! An operation as the text of its entry. Fields that are not known are passed over.

use super::{Bulk, Meant, Status, Verb};
use model::{JobId, RunId, Text, Time};
use serde_json::{Value, json};

pub fn write(bulk: &Bulk) -> String {
    let meant = match &bulk.meant {
        Meant::Ids(ids) => {
            json!({"ids": ids.iter().map(ToString::to_string).collect::<Vec<_>>()})
        }
        Meant::Filter { job, queue, text, since, until } => json!({
            "job": job.map(|job| job.to_string()), "queue": queue.as_deref(),
            "text": text.as_deref(), "since": since.map(Time::micros),
            "until": until.map(Time::micros),
        }),
    };
    json!({
        "verb": bulk.verb.name(), "meant": meant, "rate": bulk.rate,
        "status": bulk.status.name(), "done": bulk.done, "failed": bulk.failed,
        "total": bulk.total, "created": bulk.created.micros(), "body": bulk.body,
        "cursor": bulk.cursor.as_deref(),
    })
    .to_string()
}

/// None for an operation of another kind.
pub fn read(text: &str) -> Option<Bulk> {
    let value: Value = serde_json::from_str(text).ok()?;
    let text = |value: &Value| value.as_str().map(Text::from);
    let time = |value: &Value| value.as_i64().map(Time::from_micros);
    let meant = &value["meant"];
    let meant = match meant["ids"].as_array() {
        Some(ids) => Meant::Ids(ids.iter().filter_map(|id| RunId::parse(id.as_str()?)).collect()),
        None => Meant::Filter {
            job: meant["job"].as_str().and_then(JobId::parse),
            queue: text(&meant["queue"]),
            text: text(&meant["text"]),
            since: time(&meant["since"]),
            until: time(&meant["until"]),
        },
    };
    Some(Bulk {
        verb: match value["verb"].as_str()? {
            "replay" => Verb::Replay,
            "discard" => Verb::Discard,
            _ => return None,
        },
        meant,
        rate: u32::try_from(value["rate"].as_u64()?).ok()?,
        status: match value["status"].as_str()? {
            "running" => Status::Running,
            "cancelled" => Status::Cancelled,
            _ => Status::Done,
        },
        done: value["done"].as_u64()?,
        failed: value["failed"].as_u64()?,
        total: value["total"].as_u64(),
        created: time(&value["created"])?,
        body: value["body"].as_u64().unwrap_or_default(),
        cursor: text(&value["cursor"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_survives_its_text() {
        let run = RunId::parse("run_01kx5h3q8m0000000000000000").expect("an id");
        let filter = Meant::Filter {
            job: Some(run.job),
            queue: Some(Text::from("q")),
            text: None,
            since: Some(Time::from_secs(5)),
            until: None,
        };
        for meant in [Meant::Ids(vec![run]), filter] {
            let bulk = Bulk {
                verb: Verb::Discard,
                meant,
                rate: 7,
                status: Status::Running,
                done: 1,
                failed: 2,
                total: None,
                created: Time::from_secs(9),
                body: u64::MAX,
                cursor: Some(Text::from("c")),
            };
            assert_eq!(read(&write(&bulk)), Some(bulk));
        }
        assert_eq!(read("{\"verb\":\"backfill\"}"), None);
        assert_eq!(read("rubbish"), None);
    }
}
