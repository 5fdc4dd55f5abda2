//! Room for connections: so many in all, so many of one peer. When it is full, the connection that has
//! been idle longest gives way to a new one; if none is idle the new one is turned away. So a crowd of
//! silent connections cannot lock anybody out, and requests under way are never cut for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
pub struct Room {
    all_max: usize,
    peer_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    seats: BTreeMap<u64, Place>,
    /// (since when, seat): without a request under way.
    idle: BTreeSet<(u64, u64)>,
    peers: BTreeMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Place {
    peer: IpAddr,
    requests: u32,
    idle_since: u64,
    evicted: Arc<Notify>,
}

/// A connection's place; given back when dropped.
#[derive(Debug)]
pub struct Seat {
    room: Arc<Room>,
    number: u64,
    evicted: Arc<Notify>,
}

/// A request under way; its connection is not idle.
#[derive(Debug)]
pub struct Busy {
    room: Arc<Room>,
    number: u64,
}

impl Room {
    pub fn new(all_max: usize, peer_max: usize) -> Arc<Room> {
        Arc::new(Room { all_max, peer_max, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn open(&self) -> usize {
        self.state().seats.len()
    }

    /// None if there is no room and nobody idle.
    pub fn enter(self: &Arc<Room>, peer: IpAddr) -> Option<Seat> {
        let mut state = self.state();
        // Behind a proxy on this machine everybody is loopback.
        let of_peer = state.peers.get(&peer).copied().unwrap_or(0);
        if !peer.is_loopback() && of_peer >= self.peer_max {
            state.evict(|place| place.peer == peer)?;
        }
        if state.seats.len() >= self.all_max {
            state.evict(|_| true)?;
        }
        let number = state.next();
        let evicted = Arc::new(Notify::new());
        let place = Place { peer, requests: 0, idle_since: number, evicted: evicted.clone() };
        state.seats.insert(number, place);
        state.idle.insert((number, number));
        *state.peers.entry(peer).or_insert(0) += 1;
        Some(Seat { room: self.clone(), number, evicted })
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn evict(&mut self, of: impl Fn(&Place) -> bool) -> Option<()> {
        let seats = &self.seats;
        let (_, number) =
            *self.idle.iter().find(|(_, number)| seats.get(number).is_some_and(&of))?;
        if let Some(place) = self.leave(number) {
            place.evicted.notify_one();
        }
        Some(())
    }

    fn leave(&mut self, number: u64) -> Option<Place> {
        let place = self.seats.remove(&number)?;
        self.idle.remove(&(place.idle_since, number));
        if let Some(count) = self.peers.get_mut(&place.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&place.peer);
            }
        }
        Some(place)
    }
}

impl Seat {
    pub fn busy(&self) -> Busy {
        let mut state = self.room.state();
        if let Some(place) = state.seats.get_mut(&self.number) {
            place.requests += 1;
            let idle = (place.idle_since, self.number);
            state.idle.remove(&idle);
        }
        Busy { room: self.room.clone(), number: self.number }
    }

    /// Resolves when this connection must give way.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.state().leave(self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.room.state();
        let now = state.next();
        if let Some(place) = state.seats.get_mut(&self.number) {
            place.requests -= 1;
            if place.requests == 0 {
                place.idle_since = now;
                state.idle.insert((now, self.number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: [IpAddr; 2] = [
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)),
    ];

    fn is_evicted(seat: &Seat) -> bool {
        use std::future::Future;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut evicted = std::pin::pin!(seat.evicted());
        evicted.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn the_longest_idle_gives_way_and_the_busy_do_not() {
        let room = Room::new(3, 3);
        let seats: Vec<Seat> = (0..3).map(|_| room.enter(FAR[0]).expect("room")).collect();
        let busy = seats[0].busy();
        let fourth = room.enter(FAR[1]).expect("the second seat gives way");
        assert_eq!(room.open(), 3);
        assert!(!is_evicted(&seats[0]) && is_evicted(&seats[1]) && !is_evicted(&seats[2]));
        let (_two, _three) = (seats[2].busy(), fourth.busy());
        assert!(room.enter(FAR[1]).is_none(), "nobody is idle");
        drop(busy);
        assert!(room.enter(FAR[1]).is_some(), "the first seat is idle now");
        drop(seats);
        drop(fourth);
        assert_eq!(room.open(), 0);
        assert!(room.state().idle.is_empty() && room.state().peers.is_empty());
    }

    #[test]
    fn one_peer_cannot_take_the_room_of_others() {
        let room = Room::new(10, 2);
        let mine: Vec<Seat> = (0..2).map(|_| room.enter(FAR[0]).expect("room")).collect();
        let other = room.enter(FAR[1]).expect("room");
        let _third = room.enter(FAR[0]).expect("one of mine gives way");
        assert!(is_evicted(&mine[0]) && !is_evicted(&other));
        let here = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
        let local: Vec<Option<Seat>> = (0..5).map(|_| room.enter(here)).collect();
        assert!(local.iter().all(Option::is_some), "loopback may be a proxy for everybody");
    }
}
