//! Jobs inside transactions, with the drivers themselves, on a real PostgreSQL.

use crate::postgres::Postgres;
use crate::server::{Server, binary, new_queue};
use duly_client::outbox::{SUBMIT, Submission};
use duly_client::types::ClaimOptions;
use duly_client::{Client, JobRequest};
use serde_json::{Value, json};
use sqlx::Connection;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio_postgres::NoTls;

const PATIENCE: Duration = Duration::from_secs(20);

fn job(queue: &str, n: u32) -> JobRequest {
    JobRequest::worker("k").queue(queue).payload(json!({ "n": n }))
}

fn submission(queue: &str, n: u32) -> Submission {
    Submission::of(&job(queue, n)).unwrap()
}

/// Waits for as many runs, in the order in which they are handed out; there are no others.
async fn heard(client: &Client, queue: &str, count: usize) -> Vec<u64> {
    let asked = |wait| ClaimOptions::new().max(100).wait(wait);
    let mut runs = Vec::new();
    while runs.len() < count {
        let came = client.claim("w", &[queue], asked(PATIENCE)).await.unwrap().runs;
        assert!(!came.is_empty(), "{} of {count} came", runs.len());
        runs.extend(came);
    }
    assert!(client.claim("w", &[queue], asked(Duration::ZERO)).await.unwrap().runs.is_empty());
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap()["n"].as_u64().unwrap();
    runs.iter().map(|run| number(run.payload.as_ref().unwrap().get())).collect()
}

async fn with_tokio_postgres(address: &str, queue: &str) {
    let (mut sql, driver) = tokio_postgres::connect(address, NoTls).await.unwrap();
    let driver = tokio::spawn(driver);
    let transaction = sql.transaction().await.unwrap();
    let one = submission(queue, 1);
    transaction.query_one(one.sql(), &[&one.job(), &one.is_ordered()]).await.unwrap();
    transaction.rollback().await.unwrap();

    let transaction = sql.transaction().await.unwrap();
    let mut numbers = Vec::new();
    for one in [submission(queue, 2), submission(queue, 3).ordered()] {
        let row = transaction.query_one(one.sql(), &[&one.job(), &one.is_ordered()]).await;
        numbers.push(row.unwrap().get::<_, i64>(0));
    }
    assert!(numbers[0] < numbers[1]);
    transaction.commit().await.unwrap();

    let own = submission(queue, 4).schema("own_outbox").unwrap();
    sql.query_one(own.sql(), &[&own.job(), &own.is_ordered()]).await.unwrap();
    let nowhere = submission(queue, 5).schema("elsewhere").unwrap();
    let said = sql.query_one(nowhere.sql(), &[&nowhere.job(), &false]).await.unwrap_err();
    assert!(said.as_db_error().unwrap().message().contains("elsewhere"), "{said}");
    drop(sql);
    driver.await.unwrap().unwrap();
}

async fn with_sqlx(address: &str, queue: &str) {
    let mut sql = sqlx::PgConnection::connect(address).await.unwrap();
    let mut tx = sql.begin().await.unwrap();
    let one = submission(queue, 1);
    let insert = sqlx::query_scalar::<_, i64>(SUBMIT).bind(one.job()).bind(one.is_ordered());
    insert.fetch_one(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();

    let mut tx = sql.begin().await.unwrap();
    let two = submission(queue, 2);
    let insert = sqlx::query_scalar::<_, i64>(SUBMIT).bind(two.job()).bind(two.is_ordered());
    let first = insert.fetch_one(&mut *tx).await.unwrap();
    let three = submission(queue, 3).schema("duly_outbox").unwrap().ordered();
    // A statement that is no constant: sqlx wants to be told that it is meant.
    let meant = sqlx::AssertSqlSafe(three.sql().to_string());
    let insert = sqlx::query_scalar::<_, i64>(meant).bind(three.job()).bind(three.is_ordered());
    assert!(insert.fetch_one(&mut *tx).await.unwrap() > first);
    tx.commit().await.unwrap();
    sql.close().await.unwrap();
}

/// What the guide says of Rust, with a job and transactions around it.
async fn the_guide(address: &str) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
    let (mut tokio_client, driver) = tokio_postgres::connect(address, NoTls).await?;
    tokio::spawn(driver);
    let transaction = tokio_client.transaction().await?;
    let mut connection = sqlx::PgConnection::connect(address).await?;
    let mut tx = connection.begin().await?;
    let ids = shown::submit(&transaction, &mut tx).await?;
    transaction.commit().await?;
    tx.commit().await?;
    Ok(ids)
}

#[rustfmt::skip]
mod shown {
    pub async fn submit(transaction: &tokio_postgres::Transaction<'_>, tx: &mut sqlx::PgTransaction<'_>) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
        use serde_json::json;
        let mut ids = Vec::new();
// guide
use duly_client::{JobRequest, outbox, outbox::Submission};

let mail = Submission::of(&JobRequest::worker("send-mail").payload(json!({"order": 42})))?;
// tokio-postgres
let id: i64 = transaction.query_one(mail.sql(), &[&mail.job(), &mail.is_ordered()]).await?.get(0);
// sqlx
let id2: i64 = sqlx::query_scalar(outbox::SUBMIT).bind(mail.job()).bind(mail.is_ordered()).fetch_one(&mut **tx).await?;
// end
        ids.extend([id, id2]);
        Ok(ids)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outbox_with_tokio_postgres_and_sqlx() {
    let postgres = Postgres::start();
    let address = &*postgres.address;
    for schema in ["duly_outbox", "own_outbox"] {
        let made = Command::new(binary())
            .args(["outbox", "install", "--database", address, "--schema", schema])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let shop = format!("shop={address}");
    let own = format!("own={address}?outbox_schema=own_outbox");
    let server = Server::start_with(&["--outbox", &shop, "--outbox", &own]);
    let client = Client::at(&*server.url).unwrap();

    let queue = new_queue();
    with_tokio_postgres(address, &queue).await;
    let mut came = heard(&client, &queue, 3).await;
    assert!(came.iter().position(|n| *n == 2) < came.iter().position(|n| *n == 3), "{came:?}");
    came.sort_unstable();
    assert_eq!(came, [2, 3, 4], "of two outboxes");
    let queue = new_queue();
    with_sqlx(address, &queue).await;
    assert_eq!(heard(&client, &queue, 2).await, [2, 3]);

    assert_eq!(the_guide(address).await.unwrap().len(), 2);
    let asked = ClaimOptions::new().max(1).wait(PATIENCE);
    for _ in 0..2 {
        let run = client.claim("w", &["default"], asked.clone()).await.unwrap().runs.remove(0);
        assert_eq!(run.payload.unwrap().get(), r#"{"order":42}"#);
    }
}

#[test]
fn the_guide_shows_the_code_that_is_tested() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(package.join("../../docs/guides/outbox.md")).unwrap();
    let block = guide.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let tested = include_str!("outbox.rs").split("// guide\n").nth(1).unwrap();
    let tested = tested.split("// end\n").next().unwrap();
    assert_eq!(block, tested.replace("&mut **tx", "&mut *tx").replace("id2", "id"));
}
