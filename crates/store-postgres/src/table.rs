//! Tables as lists of columns, and from them the functions that change rows: for each table
//! `insert_`, `update_`, `remove_` and `absent_`, over arrays with one element per row. Each checks
//! by counting that every row was as expected, and raises otherwise, so that a statement that calls
//! several of them is applied whole or not at all.
//!
//! Functions, and not statements, because PostgreSQL keeps their plans for as long as its own
//! session lives, also behind a pooler, and because they set how they are planned: row by row by their
//! keys, also while a table is small or its statistics are old. Old ones are common here: a queue that
//! was cleared while it was empty is planned for as empty when the next thousands come, and reading all
//! of it for each row that is asked for looks cheap then.

use crate::error::ROW_STATE;
use crate::limits::LOCK_WAIT_MS;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
    Bytes,
}

impl Kind {
    fn array(self) -> &'static str {
        match self {
            Kind::Int => "bigint[]",
            Kind::Text => "text[]",
            Kind::Bytes => "bytea[]",
        }
    }
}

pub(crate) type Column = (&'static str, Kind);

/// What a table is made of. `rev`: does a row count its changes? Those that do not have 1.
/// `kept`: columns where a NULL in an update means "as it was"; they come last and are left out of
/// `columns`. `made`: columns that the function itself computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub name: &'static str,
    pub key: &'static [Column],
    pub values: &'static [Column],
    pub kept: &'static [Column],
    pub made: &'static [(&'static str, &'static str)],
    pub rev: bool,
}

/// How functions that change rows by their keys are run. Without index scans there are those by bitmaps,
/// which need a condition: none can walk over a whole index.
pub(crate) fn by_key() -> String {
    format!("{} SET enable_indexscan = off SET enable_indexonlyscan = off", settings())
}

/// How every function is run.
pub(crate) fn settings() -> String {
    format!(
        "LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off \
         SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan \
         SET lock_timeout = {LOCK_WAIT_MS}"
    )
}

impl Table {
    fn all(&self) -> impl Iterator<Item = &'static Column> {
        self.key.iter().chain(self.values).chain(self.kept)
    }

    /// The columns that a reader reads, for a statement in which the table is called `name`.
    pub fn columns(&self, name: &str) -> String {
        let columns = self.key.iter().chain(self.values);
        let columns: Vec<String> = columns.map(|(column, _)| format!("{name}.{column}")).collect();
        columns.join(", ")
    }

    /// How many columns `columns` names.
    pub fn width(&self) -> usize {
        self.key.len() + self.values.len()
    }

    /// Rows of `source` by their keys: `$1…` are arrays of key columns; the first column is the place
    /// in them.
    pub fn select(&self, source: &str) -> String {
        let marks: Vec<String> = (1..=self.key.len()).map(|n| format!("${n}")).collect();
        format!(
            "SELECT x.n, {} FROM unnest({}) WITH ORDINALITY AS x({}, n) JOIN {} AS t ON {}",
            self.columns("t"),
            marks.join(", "),
            names(self.key),
            source,
            self.is_row()
        )
    }

    fn is_row(&self) -> String {
        let equal = self.key.iter().map(|(column, _)| format!("t.{column} = x.{column}"));
        equal.collect::<Vec<_>>().join(" AND ")
    }

    /// The function that inserts into a table of these columns that is called `table`, rows that
    /// meet the condition `that`. What is there already is a unique violation, which is a mismatch as
    /// well; ON CONFLICT would look up every key twice.
    pub fn insert(&self, table: &str, that: &str) -> String {
        let all: Vec<Column> = self.all().copied().collect();
        let mut targets = names(&all);
        let mut sources = all.iter().map(|(name, _)| format!("x.{name}")).collect::<Vec<_>>();
        for (name, expression) in self.made {
            let _ = write!(targets, ", {name}");
            sources.push((*expression).to_string());
        }
        let body = format!(
            "INSERT INTO duly.{table} ({targets}) SELECT {} FROM {}{that}",
            sources.join(", "),
            rows(&all)
        );
        let mut out = String::new();
        function(&mut out, &format!("insert_{table}"), table, &all, &body);
        out
    }

    pub fn drop_insert(&self, table: &str) -> String {
        format!("DROP FUNCTION duly.insert_{table}(bigint, {})", self.kinds())
    }

    /// The types of the arrays that carry its columns, named as `function` names them.
    pub fn kinds(&self) -> String {
        let kinds =
            self.all().enumerate().map(|(n, (_, kind))| format!("a{} {}", n + 1, kind.array()));
        kinds.collect::<Vec<_>>().join(", ")
    }

    /// The statements that make the four functions.
    pub fn functions(&self) -> String {
        let mut out = String::new();
        let table = self.name;
        let all: Vec<Column> = self.all().copied().collect();
        let mut sets: Vec<String> =
            self.values.iter().map(|(name, _)| format!("{name} = x.{name}")).collect();
        sets.extend(
            self.kept.iter().map(|(name, _)| format!("{name} = coalesce(x.{name}, t.{name})")),
        );
        sets.extend(self.made.iter().map(|(name, expression)| format!("{name} = {expression}")));
        let is_row = self.is_row();
        // A row that does not count has revision 1, which no index needs to look up.
        let met = if self.rev { "t.rev = x.expected" } else { "x.expected = 1" };
        let mut expecting = all.clone();
        expecting.push(("expected", Kind::Int));
        let mut key = self.key.to_vec();
        out.push_str(&self.insert(table, ""));
        let rows = self::rows(&expecting);
        let body = format!(
            "UPDATE duly.{table} AS t SET {} FROM {rows} WHERE {is_row} AND {met}",
            sets.join(", ")
        );
        function(&mut out, &format!("update_{table}"), table, &expecting, &body);
        // A row that shall be absent: what is found is not as expected.
        let rows = self::rows(&key);
        let body = format!(
            "SELECT 1 FROM {rows} WHERE NOT EXISTS (SELECT 1 FROM duly.{table} AS t WHERE {is_row})"
        );
        function(
            &mut out,
            &format!("absent_{table}"),
            table,
            &key,
            &format!("PERFORM {}", &body[7..]),
        );
        key.push(("expected", Kind::Int));
        let rows = self::rows(&key);
        let body = format!("DELETE FROM duly.{table} AS t USING {rows} WHERE {is_row} AND {met}");
        function(&mut out, &format!("remove_{table}"), table, &key, &body);
        out
    }
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The arrays as rows called x. Only the first is unnested: of several PostgreSQL would put each element
/// into a store of its own and take it out again, which costs several times what a subscript does
/// (parameters of a function in PL/pgSQL are arrays that are already taken apart).
fn rows(columns: &[Column]) -> String {
    let first = columns.first().map_or("", |(name, _)| name);
    let rest = columns.iter().enumerate().skip(1);
    let rest: String = rest.map(|(n, (name, _))| format!(", a{}[k.n] AS {name}", n + 1)).collect();
    format!("(SELECT k.{first}{rest} FROM unnest(a1) WITH ORDINALITY AS k({first}, n)) AS x")
}

/// `clock` is the store's clock; a1, a2, … are the columns.
fn function(out: &mut String, name: &str, table: &str, columns: &[Column], body: &str) {
    let params: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(n, (_, kind))| format!("a{} {}", n + 1, kind.array()))
        .collect();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "CREATE OR REPLACE FUNCTION duly.{name}(clock bigint, {}) RETURNS void {} AS $$
DECLARE found_rows bigint;
BEGIN
  {body};
  GET DIAGNOSTICS found_rows = ROW_COUNT;
  IF found_rows <> cardinality(a1) THEN
    RAISE EXCEPTION '{table}: % of % rows were as expected', found_rows, cardinality(a1)
      USING ERRCODE = '{ROW_STATE}';
  END IF;
END $$;",
        params.join(", "),
        by_key()
    );
}
