//! The same batches as a person would send them who wants nothing but speed: the same tables and
//! columns, prepared statements over arrays, BEGIN to COMMIT in one round trip. No fence, no number, no
//! check that a row was as expected, no clock.

use model::row::{HistoryRow, Holder, LeaseRow, RunRow};
use model::{RunId, Time};
use store::codec::codes::Code;
use store::codec::encode;
use store::codec::ids::{group_text, run_bytes};
use tokio::runtime::Runtime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Statement};

enum Column {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

fn int(value: impl Into<i64>) -> Value {
    Value::Int(Some(value.into()))
}

fn text(value: &str) -> Value {
    Value::Text(Some(value.to_string()))
}

const NONE: Value = Value::Int(None);

fn columns(rows: impl Iterator<Item = Vec<Value>>) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for row in rows {
        for (at, value) in row.into_iter().enumerate() {
            if columns.len() == at {
                columns.push(match value {
                    Value::Int(_) => Column::Int(Vec::new()),
                    Value::Text(_) => Column::Text(Vec::new()),
                    Value::Bytes(_) => Column::Bytes(Vec::new()),
                });
            }
            match (&mut columns[at], value) {
                (Column::Int(all), Value::Int(value)) => all.push(value),
                (Column::Text(all), Value::Text(value)) => all.push(value),
                (Column::Bytes(all), Value::Bytes(value)) => all.push(value),
                _ => panic!("a column has one kind"),
            }
        }
    }
    columns
}

fn params(columns: &[Column]) -> Vec<&(dyn ToSql + Sync)> {
    columns
        .iter()
        .map(|column| match column {
            Column::Int(all) => all as &(dyn ToSql + Sync),
            Column::Text(all) => all,
            Column::Bytes(all) => all,
        })
        .collect()
}

const RUN: &str = "shard, id, rev, state, due, nominal, namespace, queue, kind, priority, lane, grp, version, \
    attempts, retries, lost, replays, max_retries, backoff_initial, backoff_factor, backoff_cap, max_lost, \
    timeout, checkpoint, fresh, body, payload";
const LEASE: &str = "shard, run, rev, attempt, token, worker, node, boot, length, started, deadline, request, cancel";
const HISTORY: &str = "shard, run, token, attempt, namespace, nominal, due, started, finished, version, status, \
    worker, code, error, output, state_after, next, until, count, flow_namespace, queue, kind, priority, lane, \
    grp, planned_job, bytes";

fn run_values(row: &RunRow) -> Vec<Value> {
    let (flow, policy) = (&row.flow, &row.policy);
    let body = row.body.as_ref().map(|spec| encode::encode(spec).expect("it is written"));
    vec![
        int(row.id.job.shard().0),
        Value::Bytes(Some(run_bytes(row.id).to_vec())),
        int(row.rev),
        int(row.state.code()),
        int(row.due.micros()),
        int(row.nominal.micros()),
        int(flow.namespace.0),
        text(&flow.queue),
        text(&flow.kind),
        int(flow.priority),
        int(flow.lane.code()),
        Value::Text(Some(group_text(flow.group.as_ref()))),
        int(row.version),
        int(row.attempts),
        int(row.retries),
        int(row.lost),
        int(row.replays),
        int(policy.max_retries),
        int(policy.initial.micros()),
        int(policy.factor),
        int(policy.cap.micros()),
        int(policy.max_lost),
        int(policy.timeout.micros()),
        int(row.checkpoint),
        int(row.fresh),
        Value::Bytes(body),
        Value::Bytes(row.body.as_ref().map(|spec| spec.payload.to_vec())),
    ]
}

fn lease_values(row: &LeaseRow) -> Vec<Value> {
    let Holder::Worker(worker) = &row.holder else { panic!("a worker") };
    vec![
        int(row.run.job.shard().0),
        Value::Bytes(Some(run_bytes(row.run).to_vec())),
        int(row.rev),
        int(row.attempt),
        int(row.token.0 as i64),
        text(worker),
        NONE,
        NONE,
        int(row.length.micros()),
        int(row.started.micros()),
        int(row.deadline.micros()),
        int(row.request as i64),
        int(row.cancel),
    ]
}

fn history_values(row: &HistoryRow) -> Vec<Value> {
    let flow = row.flow.as_ref().expect("a flow");
    vec![
        int(row.run.job.shard().0),
        Value::Bytes(Some(run_bytes(row.run).to_vec())),
        int(row.token.0 as i64),
        int(row.attempt),
        int(row.namespace.0),
        int(row.nominal.micros()),
        int(row.due.micros()),
        Value::Int(row.started.map(Time::micros)),
        int(row.finished.micros()),
        int(row.version),
        int(row.status.code()),
        Value::Text(row.worker.as_ref().map(|text| text.to_string())),
        NONE,
        Value::Text(None),
        Value::Bytes(row.output.as_ref().map(|output| output.to_vec())),
        int(row.after.code()),
        NONE,
        NONE,
        int(row.count as i64),
        NONE,
        text(&flow.queue),
        text(&flow.kind),
        int(flow.priority),
        int(flow.lane.code()),
        Value::Text(Some(group_text(flow.group.as_ref()))),
        Value::Bytes(None),
        int(400),
    ]
}

pub struct Bare {
    runtime: Runtime,
    client: Client,
    insert_runs: Statement,
    insert_leases: Statement,
    insert_history: Statement,
    remove_leases: Statement,
    remove_runs: Statement,
}

impl Bare {
    /// Into the tables that a store has made; history into the table of today.
    pub fn open(address: &str) -> Bare {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connected = runtime.block_on(tokio_postgres::connect(address, NoTls));
        let (client, driver) = connected.expect("a connection");
        runtime.spawn(driver);
        let row = runtime.block_on(client.query_one(
            "SELECT name FROM duly.history_tables WHERE failures = 0 AND day = duly.clock() / 86400000000",
            &[],
        ));
        let today: String = row.expect("today's table").get(0);
        let kinds =
            |columns: &str| -> Vec<Type> { columns.split(", ").map(str::trim).map(kind).collect() };
        let insert = |table: &str, columns: &str| {
            let marks: Vec<String> =
                (1..=columns.split(", ").count()).map(|n| format!("${n}")).collect();
            let sql = format!(
                "INSERT INTO duly.{table} ({columns}) SELECT * FROM unnest({})",
                marks.join(", ")
            );
            runtime.block_on(client.prepare_typed(&sql, &kinds(columns))).expect("prepared")
        };
        let remove = |table: &str, id: &str| {
            let sql = format!("DELETE FROM duly.{table} WHERE shard = $2 AND {id} = ANY ($1)");
            runtime
                .block_on(client.prepare_typed(&sql, &[Type::BYTEA_ARRAY, Type::INT8]))
                .expect("prepared")
        };
        Bare {
            insert_runs: insert("runs", RUN),
            insert_leases: insert("leases", LEASE),
            insert_history: insert(&today, HISTORY),
            remove_leases: remove("leases", "run"),
            remove_runs: remove("runs", "id"),
            runtime,
            client,
        }
    }

    pub fn commit(&self, runs: &[RunRow], leases: &[LeaseRow], ends: &[HistoryRow]) {
        let inserted = columns(runs.iter().map(run_values));
        let claimed = columns(leases.iter().map(lease_values));
        let ended = columns(ends.iter().map(history_values));
        let ids: Vec<Vec<u8>> = ends.iter().map(|row| id(row.run)).collect();
        let shard: i64 = runs[0].id.job.shard().0.into();
        let ids: [&(dyn ToSql + Sync); 2] = [&ids, &shard];
        let (inserted, claimed, ended) = (params(&inserted), params(&claimed), params(&ended));
        let Bare { client, .. } = self;
        // All are sent before the first is answered.
        let all = async {
            let begin = client.batch_execute("BEGIN");
            let runs = client.execute(&self.insert_runs, &inserted);
            let leases = async {
                if claimed.is_empty() {
                    Ok(0)
                } else {
                    client.execute(&self.insert_leases, &claimed).await
                }
            };
            let ends = async {
                if ended.is_empty() {
                    return Ok(0);
                }
                let (a, b, c) = tokio::join!(
                    client.execute(&self.remove_leases, &ids),
                    client.execute(&self.remove_runs, &ids),
                    client.execute(&self.insert_history, &ended),
                );
                a.and(b).and(c)
            };
            let commit = client.batch_execute("COMMIT");
            let (a, b, c, d, e) = tokio::join!(begin, runs, leases, ends, commit);
            a.expect("begun");
            b.and(c).and(d).expect("written");
            e.expect("committed");
        };
        self.runtime.block_on(all);
    }
}

fn id(run: RunId) -> Vec<u8> {
    run_bytes(run).to_vec()
}

fn kind(column: &str) -> Type {
    match column {
        "id" | "run" | "body" | "payload" | "output" | "planned_job" => Type::BYTEA_ARRAY,
        "queue" | "kind" | "grp" | "worker" | "error" => Type::TEXT_ARRAY,
        _ => Type::INT8_ARRAY,
    }
}
