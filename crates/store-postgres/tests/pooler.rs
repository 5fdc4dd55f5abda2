//! The same suite through a PgBouncer in transaction mode: every transaction may meet another
//! session of the server, so nothing of a session can be used.
#![allow(clippy::expect_used)] // all of this is tests

mod common;

use common::{free_port, postgres_sh, server};
use std::sync::OnceLock;
use store_postgres::PostgresStore;

fn pooler() -> u16 {
    static POOLER: OnceLock<u16> = OnceLock::new();
    *POOLER.get_or_init(|| {
        let port = free_port();
        postgres_sh(&["pooler", server().path(), &port.to_string()]);
        port
    })
}

fn make() -> PostgresStore {
    let name = server().filled();
    let address = format!("postgres://postgres@127.0.0.1:{}/{name}", pooler());
    PostgresStore::open(&address).expect("it opens")
}

// The tables are made through the server in `conformance`; here through the pooler.
#[test]
fn the_schema_is_made_through_the_pooler() {
    let name = server().database();
    let address = format!("postgres://postgres@127.0.0.1:{}/{name}", pooler());
    PostgresStore::open(&address).expect("it opens");
    PostgresStore::open(&server().address(&name)).expect("it is there");
}

store::store_conformance!(make, 1);
