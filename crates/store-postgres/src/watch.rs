//! For the crash test: writes down, in a schema of its own inside the database, every lease that is
//! given and ended and every lapse of a node's lease, in the commit that does it. Nobody outside can
//! look so closely: between two looks at a table a lease may come and go.
//!
//! What is counted is what the store holds when a commit ends, so a lease that is ended and one that
//! takes its place in the same commit are never counted both.

use crate::cols::cols;
use crate::conn::Conn;
use crate::error::Res;
use model::id::NodeId;
use model::{RunId, Text, Time, Token};

/// A lease was given.
#[derive(Clone, Debug)]
pub struct Given {
    pub at: Time,
    pub run: RunId,
    pub token: Token,
    /// None: a worker holds it.
    pub node: Option<NodeId>,
    pub queue: Text,
    pub group: Option<Text>,
    /// Leases of its queue, and of its group in it, when that commit ended: itself among them.
    pub of_queue: u32,
    pub of_group: u32,
}

/// A lease was ended, whoever did it and why.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub at: Time,
    pub run: RunId,
    pub token: Token,
    /// When the lease of the node that held it ends or ended; none if a worker held it or the node's
    /// row is gone.
    pub expires: Option<Time>,
}

/// All that was written down.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    pub given: Vec<Given>,
    pub ended: Vec<Ended>,
    /// Nodes that did not renew in time, and since when their lease was over.
    pub lapses: Vec<(NodeId, Time)>,
}

const BEGIN: &str = r#"
CREATE SCHEMA duly_watch;
CREATE TABLE duly_watch.given (at bigint, run bytea, token bigint, node bigint, boot bigint,
  queue text COLLATE "C", grp text COLLATE "C", of_queue bigint, of_group bigint);
CREATE TABLE duly_watch.ended (at bigint, run bytea, token bigint, expires bigint);
CREATE TABLE duly_watch.lapses (node bigint, boot bigint, expires bigint);

CREATE FUNCTION duly_watch.given() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.token = NEW.token THEN RETURN NULL; END IF;
  INSERT INTO duly_watch.given
  SELECT duly.clock(), NEW.run, NEW.token, NEW.node, NEW.boot, r.queue, r.grp, count(*),
    count(*) FILTER (WHERE o.grp = r.grp)
  FROM duly.runs AS r, duly.leases AS l JOIN duly.runs AS o ON o.id = l.run
  WHERE r.id = NEW.run AND l.shard = NEW.shard AND o.namespace = r.namespace AND o.queue = r.queue
  GROUP BY r.queue, r.grp;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER given AFTER INSERT OR UPDATE ON duly.leases DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION duly_watch.given();

CREATE FUNCTION duly_watch.ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.token = NEW.token THEN RETURN NULL; END IF;
  INSERT INTO duly_watch.ended SELECT duly.clock(), OLD.run, OLD.token,
    (SELECT n.expires FROM duly.nodes AS n WHERE n.node = OLD.node AND n.boot = OLD.boot);
  RETURN NULL;
END $$;
CREATE TRIGGER ended AFTER UPDATE OR DELETE ON duly.leases
  FOR EACH ROW EXECUTE FUNCTION duly_watch.ended();

CREATE FUNCTION duly_watch.lapsed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.expires > 0 AND OLD.expires <= duly.clock() THEN
    INSERT INTO duly_watch.lapses VALUES (OLD.node, OLD.boot, OLD.expires);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER lapsed AFTER UPDATE OR DELETE ON duly.nodes
  FOR EACH ROW EXECUTE FUNCTION duly_watch.lapsed();
"#;

/// In a transaction.
pub(crate) fn begin(conn: &mut Conn) -> Res<()> {
    conn.run(BEGIN)
}

/// In a transaction that sees one state.
pub(crate) fn read(conn: &mut Conn) -> Res<Watched> {
    let mut seen = Watched::default();
    let given =
        "SELECT run, at, token, node, boot, queue, grp, of_queue, of_group FROM duly_watch.given";
    for row in conn.query(given, &[])? {
        let mut cols = cols(&row, "given", 0);
        let (run, at, token) = (cols.run()?, cols.time()?, Token(cols.bits()?));
        let (node, boot) = (cols.opt_int()?, cols.opt_int()?);
        let node = node.and_then(|node| u32::try_from(node).ok()).zip(boot);
        let node = node.map(|(node, boot)| NodeId { node, boot: boot as u64 });
        let (queue, group) = (cols.text()?, cols.group()?);
        let (of_queue, of_group) = (cols.num()?, cols.num()?);
        seen.given.push(Given { at, run, token, node, queue, group, of_queue, of_group });
    }
    for row in conn.query("SELECT run, at, token, expires FROM duly_watch.ended", &[])? {
        let mut cols = cols(&row, "ended", 0);
        let (run, at, token) = (cols.run()?, cols.time()?, Token(cols.bits()?));
        seen.ended.push(Ended { at, run, token, expires: cols.opt_time()? });
    }
    for row in conn.query("SELECT node, boot, expires FROM duly_watch.lapses", &[])? {
        let mut cols = cols(&row, "lapses", 0);
        let node = NodeId { node: cols.num()?, boot: cols.bits()? };
        seen.lapses.push((node, cols.time()?));
    }
    Ok(seen)
}
