//! A TCP fault proxy: stands before one address and does to what passes what it is told, while it
//! passes. One of them is placed between each node and its database, and one before each node's
//! address for other nodes.
//!
//! | rule | what those on both ends see |
//! |---|---|
//! | delay, jitter, throttle | everything arrives, later |
//! | hold | nothing arrives, nothing is lost: what was sent comes when the rule is lifted, as after a partition that TCP outlived |
//! | swallow | nothing arrives and it is lost; the connection is reset when the rule is lifted |
//! | cut after k bytes | k more bytes pass in that direction, then both ends are reset |
//! | half-open | a connection is accepted and nobody is behind it |
//! | refuse | a connection is reset as soon as it is made |
//!
//! Each direction has rules of its own, so that a partition may be one-way; rules may be for the
//! connections of one process only, so that a single pair may be apart. `reset` resets what is open
//! once. What it does not do: understand what passes, or drop single packets.

mod caller;
mod pump;
#[cfg(test)]
mod tests;

use crate::limits::{PROXY_CONNECTIONS_MAX, PROXY_DIAL_PATIENCE};
use pump::pump;
use socket2::SockRef;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    #[default]
    Pass,
    Hold,
    Swallow,
    /// So many more bytes of each connection, counted from the moment the rule is given.
    CutAfter(u64),
}

/// What happens to bytes that go one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    pub flow: Flow,
    pub delay: Duration,
    /// At most so much more, by chance.
    pub jitter: Duration,
    pub bytes_per_second: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accept {
    #[default]
    Serve,
    HalfOpen,
    Refuse,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// From whoever connected to whom the proxy stands before.
    pub up: Way,
    /// The answers.
    pub down: Way,
    pub accept: Accept,
}

impl Rules {
    pub fn both(way: Way) -> Rules {
        Rules { up: way, down: way, accept: Accept::Serve }
    }

    pub fn flow(flow: Flow) -> Rules {
        Rules::both(Way { flow, ..Way::default() })
    }

    pub fn delay(delay: Duration, jitter: Duration) -> Rules {
        Rules::both(Way { delay, jitter, ..Way::default() })
    }
}

/// One accepted connection. Its sockets close when the last of its pumps lets go.
#[derive(Debug)]
pub(crate) struct Link {
    near: TcpStream,
    far: Option<TcpStream>,
    over: AtomicBool,
    /// Bytes were lost: it must not go on when the rule is lifted.
    torn: AtomicBool,
    /// The rules are for somebody else's connections.
    spared: AtomicBool,
}

impl Link {
    /// Both ends see a reset: closing with a linger time of zero sends one.
    fn tear(&self) {
        for stream in std::iter::once(&self.near).chain(&self.far) {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
        self.over.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(crate) struct Control {
    to: Mutex<SocketAddr>,
    /// The rules are for connections of this process only.
    only: Mutex<Option<u32>>,
    /// With the number of the change, so that a count of bytes begins anew with each.
    rules: Mutex<(Rules, u64)>,
    changed: Condvar,
    links: Mutex<Vec<Weak<Link>>>,
    open: AtomicUsize,
    over: AtomicBool,
    /// Connections made, bytes passed, connections reset: a fault that hit nothing shows here.
    pub made: AtomicU64,
    pub passed: AtomicU64,
    pub torn: AtomicU64,
}

impl Control {
    fn rules(&self) -> MutexGuard<'_, (Rules, u64)> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn only(&self) -> Option<u32> {
        *self.only.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> MutexGuard<'_, Vec<Weak<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tear(&self, link: &Link) {
        if !link.over.load(Ordering::SeqCst) {
            self.torn.fetch_add(1, Ordering::Relaxed);
            link.tear();
        }
    }
}

#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
}

impl Proxy {
    /// Stands before `to`, on a port of its own.
    pub fn start(to: SocketAddr) -> Result<Proxy, String> {
        Proxy::start_at(IpAddr::V4(Ipv4Addr::LOCALHOST), to)
    }

    /// At an address of this machine that others reach.
    pub fn start_at(at: IpAddr, to: SocketAddr) -> Result<Proxy, String> {
        let listener = TcpListener::bind((at, 0)).map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let control = Arc::new(Control {
            to: Mutex::new(to),
            only: Mutex::new(None),
            rules: Mutex::new((Rules::default(), 0)),
            changed: Condvar::new(),
            links: Mutex::new(Vec::new()),
            open: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            made: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            torn: AtomicU64::new(0),
        });
        let shared = control.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.over.load(Ordering::SeqCst) {
                    return;
                }
                if shared.open.load(Ordering::SeqCst) < PROXY_CONNECTIONS_MAX {
                    let shared = shared.clone();
                    // Dialling may take a while, and others wait to be accepted.
                    std::thread::spawn(move || serve(&shared, stream));
                }
            }
        });
        Ok(Proxy { address, control })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub fn set(&self, rules: Rules) {
        let mut now = self.control.rules();
        *now = (rules, now.1 + 1);
        drop(now);
        self.control.changed.notify_all();
    }

    /// From now on, for the connections of one process; the others pass.
    pub fn set_for(&self, process: u32, rules: Rules) {
        *self.control.only.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
        for link in self.links() {
            link.spared.store(!caller::is_of(process, &link.near), Ordering::SeqCst);
        }
        self.set(rules);
    }

    /// Stands before another address from now on; what is open stays where it is.
    pub fn aim(&self, to: SocketAddr) {
        *self.control.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// Everything passes again; connections that lost bytes are reset.
    pub fn heal(&self) {
        self.set(Rules::default());
        *self.control.only.lock().unwrap_or_else(PoisonError::into_inner) = None;
        for link in self.links() {
            link.spared.store(false, Ordering::SeqCst);
            if link.torn.load(Ordering::SeqCst) {
                self.control.tear(&link);
            }
        }
    }

    /// Resets what is open.
    pub fn reset(&self) {
        for link in self.links() {
            self.control.tear(&link);
        }
    }

    /// Connections made, bytes passed, connections reset, so far.
    pub fn seen(&self) -> (u64, u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.control.made), read(&self.control.passed), read(&self.control.torn))
    }

    fn links(&self) -> Vec<Arc<Link>> {
        self.control.links().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.control.over.store(true, Ordering::SeqCst);
        self.set(Rules::default());
        self.reset();
        // Wakes the accepting thread, which then sees that it is over.
        let _ = TcpStream::connect_timeout(&self.address, PROXY_DIAL_PATIENCE);
    }
}

fn serve(control: &Arc<Control>, near: TcpStream) {
    let accept = control.rules().0.accept;
    if accept == Accept::Refuse {
        control.torn.fetch_add(1, Ordering::Relaxed);
        let _ = SockRef::from(&near).set_linger(Some(Duration::ZERO));
        return;
    }
    let half_open = accept == Accept::HalfOpen;
    let to = *control.to.lock().unwrap_or_else(PoisonError::into_inner);
    let far = match half_open {
        true => None,
        false => match TcpStream::connect_timeout(&to, PROXY_DIAL_PATIENCE) {
            Ok(far) => Some(far),
            Err(_) => {
                // Nobody is there: whoever connected sees a reset instead of a refusal.
                let _ = SockRef::from(&near).set_linger(Some(Duration::ZERO));
                return;
            }
        },
    };
    for stream in std::iter::once(&near).chain(&far) {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(pump::LOOK_EVERY));
        let _ = stream.set_write_timeout(Some(pump::LOOK_EVERY));
    }
    control.made.fetch_add(1, Ordering::Relaxed);
    control.open.fetch_add(1, Ordering::SeqCst);
    let (over, torn) = (AtomicBool::new(false), AtomicBool::new(half_open));
    let spared = control.only().is_some_and(|process| !caller::is_of(process, &near));
    let link = Arc::new(Link { near, far, over, torn, spared: AtomicBool::new(spared) });
    let mut links = control.links();
    links.retain(|link| link.strong_count() > 0);
    links.push(Arc::downgrade(&link));
    drop(links);
    std::thread::scope(|scope| {
        scope.spawn(|| pump(control, &link, true));
        pump(control, &link, false);
    });
    control.open.fetch_sub(1, Ordering::SeqCst);
}
