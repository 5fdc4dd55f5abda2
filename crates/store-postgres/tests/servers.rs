//! What kind of server it is: what it promises, whom it trusts, and that its renewals wait for nobody.
#![allow(clippy::expect_used, clippy::panic)] // all of this is tests

mod common;

use common::{Held, Server, postgres_sh, server};
use model::cluster::{Renew, Take};
use model::{Epoch, ShardId, Span};
use store::Store;
use store::conformance::desk::{Desk, NODE};
use store::search::Search;
use store_postgres::{OpenError, PostgresStore};

fn open(address: &str) -> PostgresStore {
    PostgresStore::open(address).expect("it opens")
}

fn fact(store: &PostgresStore, name: &str) -> String {
    let facts = store.about().facts;
    facts.into_iter().find(|(fact, _)| *fact == name).map(|(_, value)| value).expect("a fact")
}

/// Until the server has read its settings.
fn set(own: &Server, setting: &str, value: &str) {
    own.sql("postgres", &format!("ALTER SYSTEM SET {setting} = {value}"));
    own.sql("postgres", "SELECT pg_reload_conf()");
    for _ in 0..10_000 {
        if own.ask("postgres", &format!("current_setting('{setting}')")) == value.trim_matches('\'')
        {
            return;
        }
    }
    panic!("the server does not take {setting} = {value}");
}

#[test]
fn a_replica_is_refused_and_counted() {
    let own = Server::start();
    let store = open(&own.address("postgres"));
    assert_eq!((fact(&store, "replicas"), fact(&store, "in_recovery")), ("0".into(), "off".into()));
    let replica = own.replica();
    let refused = PostgresStore::open(&replica.address("postgres")).expect_err("refused");
    assert!(matches!(refused, OpenError::Replica), "{refused}");
    assert!(refused.to_string().contains("read-only replica"), "{refused}");
    assert_eq!(fact(&store, "replicas"), "1", "looked at anew");

    set(&own, "full_page_writes", "off");
    set(&own, "synchronous_commit", "off");
    // A session that is there keeps what it began with until it has read the settings.
    let about = open(&own.address("postgres")).about();
    assert!(about.answers && about.kind == "postgres");
    assert!(about.durability.contains("full_page_writes = off"), "{}", about.durability);
    assert!(about.durability.contains("LAST MOMENTS ARE LOST"), "{}", about.durability);
    set(&own, "fsync", "off");
    let refused = PostgresStore::open(&own.address("postgres")).expect_err("refused");
    assert!(matches!(refused, OpenError::NoSync), "{refused}");
    postgres_sh(&["crash", own.path()]);
    assert!(!store.about().answers);
}

#[test]
fn a_certificate_is_checked_with_its_authority_and_its_name() {
    let own = Server::start();
    postgres_sh(&["tls", own.path()]);
    let folder = own.path();
    let address = |host: &str, mode: &str, authority: &str| {
        let port = own.port;
        format!(
            "postgres://postgres@{host}:{port}/postgres?sslmode={mode}&sslrootcert={folder}/{authority}.pem"
        )
    };
    for mode in ["verify-full", "require"] {
        let store = open(&address("localhost", mode, "ca"));
        Desk::open(&store, if mode == "require" { 4 } else { 3 }).commit(vec![]);
    }
    let refused = |address: &str| {
        let error = PostgresStore::open(address).expect_err("refused");
        assert!(matches!(error, OpenError::Away(_)), "{error}");
        error.to_string()
    };
    let told = refused(&address("localhost", "verify-full", "stranger"));
    assert!(told.contains("certificate"), "{told}");
    let told = refused(&address("127.0.0.1", "verify-full", "ca"));
    assert!(told.contains("certificate"), "another name: {told}");
    // The authorities that browsers trust did not sign it either.
    let told =
        refused(&format!("postgres://postgres@localhost:{}/postgres?sslmode=require", own.port));
    assert!(told.contains("certificate"), "{told}");
    let told =
        refused(&format!("postgres://postgres@localhost:{}/postgres?sslmode=disable", own.port));
    assert!(told.contains("no pg_hba.conf entry"), "{told}");
}

/// Whatever waits for a fence, the lease is renewed meanwhile.
#[test]
fn a_renewal_waits_for_no_taking_giving_or_commit() {
    let name = server().filled();
    let store = open(&server().address(&name));
    let desk = Desk::open(&store, 3);
    let renew = Renew { node: NODE, ttl: Span::from_secs(3) };
    store.renew(renew).expect("renewed");
    let held = Held::begin(
        &server().address(&name),
        "SELECT 1 FROM duly.shards WHERE shard = 3 FOR UPDATE",
    );
    std::thread::scope(|scope| {
        let take = Take { shard: ShardId(3), node: NODE, epoch: desk.epoch, by: 1 };
        let (commit, store) = (desk.build(vec![]), &store);
        let taking = scope.spawn(move || store.take(&[take]));
        let committing = scope.spawn(move || store.commit(&[commit]));
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'"
        );
        let both = (0..10_000).find(|_| server().ask("postgres", &waiting) == "2");
        both.expect("both wait");
        let before = store.renew(renew).expect("renewed while others wait").now;
        assert!(store.renew(renew).expect("and again").now > before);
        assert!(!taking.is_finished() && !committing.is_finished(), "they waited all the time");
        held.end();
        let taken = taking.join().expect("no panic").expect("answers");
        assert!(taken[0].is_some_and(|taken| taken.epoch > Epoch(1)));
        committing.join().expect("no panic").expect("answers");
    });
}
