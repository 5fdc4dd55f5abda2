//! A user's outbox: a schema in the user's own database (`install.sql`), from which duly takes jobs
//! that committed transactions left there.
//!
//! - **No row is skipped.** Ids are given before transactions commit, so a lower id can appear after
//!   a higher one was read. Every page begins at the lowest row there is; there is no cursor.
//! - **The floor** only saves work. Rows that were deleted stay in the index while some old
//!   transaction might still see them, and a scan from the beginning walks over all of them. Below the
//!   floor no row is and none can appear: `probe` notes the last id that was given and then takes a
//!   transaction number; when a later page is read after all transactions below that number have ended,
//!   what it does not show up to that id does not exist. Now and then a page begins at zero all the same.
//! - **Polling.** LISTEN needs a session, which poolers share, and NOTIFY makes the commits of the whole
//!   database wait for each other.
//!
//! What it does not do: decide about jobs, retry, wait, keep time. Each call is a few statements outside
//! a transaction, on one connection that is made anew when it broke.

mod install;

pub use install::{Grants, install, install_sql};

use crate::address::Address;
use crate::conn::Conn;
use crate::error::{Fault, OpenError, Res};
use crate::limits::{ANSWER_WAIT, FLOOR_ROUNDS, FULL_ROUNDS};
use model::{Span, Time};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use store::outbox::{Ask, COUNT_MAX, Look, Outbox, Page, Row, Settle, Settled};
use tokio_postgres::types::Type;

/// The schema's usual name.
pub const SCHEMA: &str = "duly_outbox";
/// The version of the schema that this code reads.
const VERSION: i32 = 1;

/// A name that needs no quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema(String);

impl Default for Schema {
    fn default() -> Schema {
        Schema(SCHEMA.to_string())
    }
}

impl Schema {
    pub fn parse(name: &str) -> Result<Schema, String> {
        let mut bytes = name.bytes();
        let first = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let rest = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let reserved = name.starts_with("pg_") || ["duly", "public"].contains(&name);
        match first && rest && name.len() <= 63 && !reserved {
            true => Ok(Schema(name.to_string())),
            false => Err("a schema has 1 to 63 lower-case letters, digits and _, begins with a \
                          letter, and is of the outbox alone"
                .to_string()),
        }
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

pub struct PostgresOutbox {
    address: Address,
    schema: Schema,
    state: Mutex<State>,
}

impl fmt::Debug for PostgresOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PostgresOutbox { address, schema, .. } = self;
        f.debug_struct("PostgresOutbox").field("address", address).field("schema", schema).finish()
    }
}

#[derive(Default)]
struct State {
    conn: Option<Conn>,
    floor: Floor,
}

/// Below `at` there is no row and none can appear.
#[derive(Debug, Default)]
struct Floor {
    at: i64,
    probe: Option<Probe>,
    /// Pages since the last probe, and since the last that began at zero.
    pages: u32,
    full: u32,
    /// Rows were seen since it last rose: without any there is nothing to walk over.
    stirred: bool,
}

/// Ids up to `last` were given to transactions below `end`.
#[derive(Clone, Copy, Debug)]
struct Probe {
    last: i64,
    end: u64,
}

impl Floor {
    /// Where the next page begins.
    fn begin(&mut self) -> i64 {
        self.pages += 1;
        self.full += 1;
        if self.full < FULL_ROUNDS {
            return self.at;
        }
        self.full = 0;
        0
    }

    /// A page over all queues was read when every transaction below `running` had ended.
    fn saw(&mut self, first: Option<i64>, running: u64) {
        // Only a page that began at zero can show it.
        self.at = self.at.min(first.unwrap_or(i64::MAX));
        self.stirred |= first.is_some();
        let Some(probe) = self.probe.filter(|probe| running >= probe.end) else { return };
        let free = probe.last.saturating_add(1);
        self.at = self.at.max(first.map_or(free, |first| first.min(free)));
        (self.probe, self.stirred) = (None, false);
    }

    fn wants_probe(&self) -> bool {
        self.stirred && self.probe.is_none() && self.pages >= FLOOR_ROUNDS
    }
}

impl PostgresOutbox {
    /// Nothing is asked of the database yet: it may be away when duly starts.
    pub fn new(address: &str, schema: Schema) -> Result<PostgresOutbox, OpenError> {
        let address = Address::parse(address)?;
        Ok(PostgresOutbox { address, schema, state: Mutex::default() })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Conn, &mut Floor) -> Res<T>) -> Result<T, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = match state.conn.take() {
            Some(mut conn) => conn.is_alive().then_some(conn),
            None => None,
        };
        let mut conn = match alive {
            Some(conn) => conn,
            None => {
                // Another server may answer, which has given fewer ids.
                state.floor = Floor::default();
                self.connect().map_err(|fault| self.words(&fault))?
            }
        };
        let result = work(&mut conn, &mut state.floor);
        if result.as_ref().err().is_none_or(|fault| fault.keeps_connection()) {
            state.conn = Some(conn);
        }
        result.map_err(|fault| self.words(&fault))
    }

    fn connect(&self) -> Res<Conn> {
        let mut conn = Conn::open(&self.address, ANSWER_WAIT)?;
        let rows = conn.query(&self.sql("SELECT version FROM duly_outbox.meta"), &[])?;
        match rows.first().map(|row| row.get::<_, i32>(0)) {
            Some(VERSION) => Ok(conn),
            Some(other) => Err(Fault::Odd(format!(
                "the outbox in the schema {} has version {other}, and this duly reads {VERSION}; \
                 run duly outbox install of the version that is used",
                self.schema.0
            ))),
            None => Err(Fault::Odd(self.missing())),
        }
    }

    fn missing(&self) -> String {
        let schema = &self.schema.0;
        format!(
            "there is no outbox in the schema {schema}; make it with: duly outbox install \
             --database URL --schema {schema}"
        )
    }

    fn words(&self, fault: &Fault) -> String {
        match fault.state().map(|state| state.code()) {
            Some("42P01" | "3F000") => self.missing(),
            Some("42501") => format!(
                "{fault}; allow it with: duly outbox install --database URL --schema {} --reader ROLE",
                self.schema.0
            ),
            _ => fault.to_string(),
        }
    }

    /// The statement for our schema.
    fn sql(&self, text: &str) -> String {
        text.replace(SCHEMA, &self.schema.0)
    }

    /// First which ids were given, then a number: whoever has one of those ids had a lower number of its
    /// own before (`install.sql`). A snapshot's own bound would not do: it says nothing of transactions
    /// that began after the last one that ended.
    fn probe(&self, conn: &mut Conn) -> Res<Option<Probe>> {
        const GIVEN: &str = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END
             FROM duly_outbox.waiting_id_seq";
        let given = conn.query(&self.sql(GIVEN), &[])?;
        let begun = conn.query("SELECT pg_current_xact_id()::text", &[])?;
        let last = given.first().map(|row| row.get::<_, i64>(0));
        let end = begun.first().map(|row| number(row.get(0))).transpose()?;
        Ok(last.zip(end).map(|(last, end)| Probe { last, end }))
    }
}

fn number(text: &str) -> Res<u64> {
    text.parse().map_err(|_| Fault::Odd(format!("{text} is not the number of a transaction")))
}

const PAGE: &str = "
  SELECT s.running, w.id, w.key::text, (extract(epoch FROM w.at) * 1000000)::bigint,
         (extract(epoch FROM clock_timestamp() - w.at) * 1000000)::bigint, w.queue, w.job::text, w.seen
  FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS running) s
  LEFT JOIN (
    SELECT *, sum(bytes) OVER (ORDER BY id) - bytes AS before, count(*) OVER () AS seen FROM (
      SELECT id, key, at, queue, bytes, job FROM duly_outbox.waiting
      WHERE id >= $1 AND queue <> ALL($2) ORDER BY id LIMIT $3
    ) p
  ) w ON w.before < $4
  ORDER BY w.id";

const SETTLE: &str = "
  WITH delivered AS (
    DELETE FROM duly_outbox.waiting WHERE id = ANY($1) RETURNING id
  ), refused AS (
    DELETE FROM duly_outbox.waiting w
    USING unnest($2::bigint[], $3::text[], $4::text[]) AS r(id, code, problem)
    WHERE w.id = r.id RETURNING w.id, w.at, w.queue, w.job, r.code, r.problem
  ), kept AS (
    INSERT INTO duly_outbox.refused (id, at, queue, code, problem, job)
    SELECT id, at, queue, code, problem, job FROM refused RETURNING id
  )
  SELECT (SELECT count(*) FROM delivered), (SELECT count(*) FROM kept)";

const LOOK: &str = "
  SELECT (SELECT count(*) FROM (SELECT FROM duly_outbox.waiting WHERE id >= $1 LIMIT $2) w),
         (SELECT (extract(epoch FROM clock_timestamp() - at) * 1000000)::bigint
          FROM duly_outbox.waiting WHERE id >= $1 ORDER BY id LIMIT 1),
         (SELECT count(*) FROM (SELECT FROM duly_outbox.refused LIMIT $2) r)";

impl Outbox for PostgresOutbox {
    fn page(&self, ask: &Ask) -> Result<Page, String> {
        let limit = ask.rows as i64;
        let bytes = ask.bytes as i64;
        self.with(|conn, floor| {
            if floor.wants_probe() {
                floor.probe = self.probe(conn)?;
                floor.pages = 0;
            }
            let begin = floor.begin();
            let rows = conn.query(
                &self.sql(PAGE),
                &[
                    (&begin, Type::INT8),
                    (&ask.without, Type::TEXT_ARRAY),
                    (&limit, Type::INT8),
                    (&bytes, Type::INT8),
                ],
            )?;
            let mut page = Page::default();
            let (mut running, mut seen) = (0, 0);
            for row in &rows {
                running = number(row.get(0))?;
                let Some(id) = row.get::<_, Option<i64>>(1) else { break };
                seen = row.get::<_, i64>(7);
                page.rows.push(Row {
                    id,
                    key: row.get(2),
                    at: Time::from_micros(row.get(3)),
                    age: Span::from_micros(row.get(4)),
                    queue: row.get(5),
                    job: row.get(6),
                });
            }
            page.more = seen >= limit || seen > page.rows.len() as i64;
            if ask.without.is_empty() {
                floor.saw(page.rows.first().map(|row| row.id), running);
            }
            Ok(page)
        })
    }

    fn settle(&self, settle: &Settle) -> Result<Settled, String> {
        let ids: Vec<i64> = settle.refused.iter().map(|one| one.id).collect();
        let codes: Vec<&str> = settle.refused.iter().map(|one| one.code.as_str()).collect();
        let problems: Vec<&str> = settle.refused.iter().map(|one| one.problem.as_str()).collect();
        self.with(|conn, _| {
            let rows = conn.query(
                &self.sql(SETTLE),
                &[
                    (&settle.delivered, Type::INT8_ARRAY),
                    (&ids, Type::INT8_ARRAY),
                    (&codes, Type::TEXT_ARRAY),
                    (&problems, Type::TEXT_ARRAY),
                ],
            )?;
            let count = |at: usize| rows.first().map_or(0, |row| row.get::<_, i64>(at).max(0));
            let (delivered, refused) = (count(0).unsigned_abs(), count(1).unsigned_abs());
            Ok(Settled { delivered, refused })
        })
    }

    fn look(&self) -> Result<Look, String> {
        let most = COUNT_MAX as i64 + 1;
        self.with(|conn, floor| {
            let params = [(&floor.at as _, Type::INT8), (&most as _, Type::INT8)];
            let rows = conn.query(&self.sql(LOOK), &params)?;
            let Some(row) = rows.first() else { return Ok(Look::default()) };
            Ok(Look {
                waiting: row.get::<_, i64>(0).unsigned_abs(),
                oldest: row.get::<_, Option<i64>>(1).map(Span::from_micros),
                refused: row.get::<_, i64>(2).unsigned_abs(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_a_plain_name() {
        for good in ["duly_outbox", "a", "_x9", &"a".repeat(63)] {
            assert!(Schema::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "9a", "A", "a-b", "a.b", "a\"b", "pg_x", "duly", "public", &"a".repeat(64)]
        {
            assert!(Schema::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_floor_rises_only_over_transactions_that_have_ended() {
        let mut floor = Floor { probe: Some(Probe { last: 10, end: 100 }), ..Floor::default() };
        floor.saw(None, 99);
        assert_eq!((floor.at, floor.probe.is_some()), (0, true), "one of them may still commit");
        floor.saw(Some(7), 100);
        assert_eq!(floor.at, 7, "what is there stays above it");
        floor.saw(None, 200);
        assert_eq!(floor.at, 7, "nothing was noted");
        floor.probe = Some(Probe { last: 10, end: 100 });
        floor.saw(Some(50), 100);
        assert_eq!(floor.at, 11, "ids above the last that was noted may belong to anybody");
        let begins: Vec<i64> = (0..FULL_ROUNDS).map(|_| floor.begin()).collect();
        assert_eq!(begins.iter().filter(|at| **at == 0).count(), 1, "now and then from zero");
        floor.saw(Some(3), 0);
        assert_eq!(floor.at, 3, "what was found below is looked at again");
    }
}
