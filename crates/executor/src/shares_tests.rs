//! Nodes that come and go, see it late, and always begin as much as they may: the limit holds.

use super::*;
use model::Span;
use proptest::prelude::*;

fn node(number: u32) -> NodeId {
    NodeId { node: number, boot: 1 }
}

fn limits(in_flight: u32) -> Shares {
    let limit = Limit { in_flight: Some(in_flight), rate: None };
    Shares::new(Limits::from([("h.example".to_string(), limit)]), false)
}

struct Sim {
    shares: Shares,
    id: NodeId,
    /// When its attempts end.
    under_way: Vec<Time>,
    /// Seconds by which it sees later what happens to others.
    late: i64,
    begun: usize,
    /// Neither looks nor begins anything until then, and since when.
    frozen: Option<(Time, Time)>,
}

impl Sim {
    /// Others see its lease.
    fn is_seen(&self, now: Time) -> bool {
        self.frozen.is_none_or(|(since, _)| now.since(since) <= LEASE)
    }

    /// What it has under way is under a valid lease: nobody has taken its shards yet.
    fn counts(&self, now: Time) -> bool {
        self.frozen.is_none_or(|(since, _)| now.since(since) <= TAKEN)
    }
}

/// When the lease of a frozen node is over, and when its shards certainly are somebody else's.
const LEASE: Span = Span::from_secs(3);
const TAKEN: Span = Span::from_secs(8);

#[derive(Clone, Copy, Debug)]
struct Change {
    after: i64,
    node: u32,
    /// How late it sees what happens to others.
    late: i64,
    /// It freezes for so long, if it is there; otherwise it comes or goes.
    freezes: Option<i64>,
}

fn story() -> impl Strategy<Value = Vec<Change>> {
    let freezes = prop::option::of(1..30_i64);
    let change = (0..90_i64, 0..6_u32, 0..4_i64, freezes)
        .prop_map(|(after, node, late, freezes)| Change { after, node, late, freezes });
    prop::collection::vec(change, 0..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn never_more_than_the_limit_and_nobody_starves(story in story(), limit in 1..12_u32) {
        let mut nodes: Vec<Sim> = Vec::new();
        // What was so at each second, as far back as somebody may be late.
        let mut past: Vec<Vec<NodeId>> = Vec::new();
        let mut story = story.into_iter();
        let mut next = story.next();
        let mut waited = 0;
        let begin = Time::from_secs(1_000_000);
        // After the last change everybody has time for a turn.
        let mut quiet = 0;
        let mut second = 0;
        while quiet < 120 * 9 {
            let now = begin.plus(Span::from_secs(second));
            match next {
                Some(Change { after, node, late, freezes }) if waited >= after => {
                    // Another life of a node is another node.
                    let id = NodeId { node, boot: second as u64 };
                    match (nodes.iter().position(|one| one.id.node == node), freezes) {
                        (Some(at), Some(seconds)) => {
                            nodes[at].frozen = Some((now, now.plus(Span::from_secs(seconds))));
                        }
                        // What it had under way is nobody's: its leases are over.
                        (Some(at), None) => drop(nodes.remove(at)),
                        (None, _) => nodes.push(Sim {
                            shares: limits(limit),
                            id,
                            under_way: Vec::new(),
                            late,
                            begun: 0,
                            frozen: None,
                        }),
                    }
                    (next, waited, quiet) = (story.next(), 0, 0);
                    nodes.iter_mut().for_each(|one| one.begun = 0);
                }
                _ => (waited, quiet) = (waited + 1, quiet + i64::from(next.is_none())),
            }
            for one in &mut nodes {
                if !one.counts(now) {
                    one.under_way.clear();
                }
                one.frozen = one.frozen.filter(|(_, until)| *until > now);
            }
            let seen = nodes.iter().filter(|one| one.is_seen(now));
            past.push(seen.map(|one| one.id).collect());
            let mut all = 0;
            for one in &mut nodes {
                one.under_way.retain(|end| *end > now);
                if one.frozen.is_some() {
                    all += one.under_way.len();
                    continue;
                }
                let seen = past.len() - 1 - (one.late as usize).min(past.len() - 1);
                let mut alive = past[seen].clone();
                if !alive.contains(&one.id) {
                    // Its first look at the store shows all that live.
                    alive = past[past.len() - 1].clone();
                }
                one.shares.seen(one.id, alive, now);
                let deadline = now.plus(Span::from_secs(30));
                while let Room::Most(most) = one.shares.room(limit, now, deadline) {
                    if one.under_way.len() >= most {
                        break;
                    }
                    one.under_way.push(deadline);
                    one.begun += 1;
                }
                all += one.under_way.len();
            }
            prop_assert!(all <= limit as usize, "{} at {}: {:?}", all, second, past.last());
            second += 1;
        }
        for one in &nodes {
            prop_assert!(one.begun > 0, "{:?} of {} never had a turn", one.id, nodes.len());
        }
    }
}

#[test]
fn one_node_has_all_of_it_and_at_once_if_its_store_is_its_own() {
    let now = Time::from_secs(1_000);
    let far = now.plus(Span::from_secs(3_600));
    let alone = Shares::new(Limits::default(), true);
    alone.seen(node(1), vec![node(1)], now);
    assert_eq!(alone.room(7, now, far), Room::Most(7));
    let first = limits(7);
    first.seen(node(1), vec![node(1)], now);
    let open = now.plus(SHARE_GROWS_AFTER);
    assert_eq!(first.room(7, now, far), Room::Later(open));
    assert_eq!(first.room(7, open, far), Room::Most(7));
}

#[test]
fn what_takes_longer_than_a_turn_is_not_begun_where_turns_are_taken() {
    let shares = limits(1);
    let now = Time::from_secs(1_000);
    let both = vec![node(1), node(2)];
    let later = now.plus(Span::from_secs(300));
    for second in 0..=300 {
        shares.seen(node(1), both.clone(), now.plus(Span::from_secs(second)));
    }
    let long = later.plus(SHARE_TURN);
    assert_eq!(shares.room(1, later, long), Room::Never);
    assert_ne!(shares.room(1, later, later.plus(Span::from_secs(30))), Room::Never);
}

#[test]
fn a_host_with_its_port_counts_before_the_host() {
    let of = |in_flight| Limit { in_flight: Some(in_flight), rate: None };
    let limits = [("h.example".to_string(), of(1)), ("h.example:81".to_string(), of(2))];
    let shares = Shares::new(Limits::from(limits), false);
    let place = |host: &str, port| Place { tls: false, host: Host::Name(host.to_string()), port };
    assert_eq!(shares.limit(&place("h.example", 80)), Some(of(1)));
    assert_eq!(shares.limit(&place("h.example", 81)), Some(of(2)));
    assert_eq!(shares.limit(&place("i.example", 80)), None);
}
