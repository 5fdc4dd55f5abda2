//! Carries the bytes of one connection one way, under the rules of the moment.

use super::{Control, Flow, Link, Way};
use crate::limits::PROXY_CHUNK;
use model::hash::mix;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a pump that waits looks whether its connection is over.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn pump(control: &Control, link: &Link, up: bool) {
    let (from, to) = match up {
        true => (Some(&link.near), link.far.as_ref()),
        false => (link.far.as_ref(), Some(&link.near)),
    };
    // Half-open: nobody answers, ever.
    let Some(from) = from else { return };
    let mut pump = Pump { control, link, up, change: None, left: 0, drawn: 0 };
    let mut bytes = vec![0; PROXY_CHUNK];
    while !link.over.load(Ordering::SeqCst) {
        match Read::read(&mut &*from, &mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                if !pump.carry(to, &bytes[..count]) {
                    return;
                }
            }
            Err(error) if waits(&error) => {}
            Err(_) => {
                // One end is gone: the other learns it as it would without us.
                control.tear(link);
                return;
            }
        }
    }
    // An orderly end goes on to the other side; the other direction may still have words.
    if let (Some(to), false) = (to, link.over.load(Ordering::SeqCst)) {
        let _ = to.shutdown(Shutdown::Write);
    }
}

fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

struct Pump<'a> {
    control: &'a Control,
    link: &'a Link,
    up: bool,
    /// The change that `left` was counted from.
    change: Option<u64>,
    left: u64,
    drawn: u64,
}

impl Pump<'_> {
    /// False when the connection is over.
    fn carry(&mut self, to: Option<&TcpStream>, bytes: &[u8]) -> bool {
        let Some(way) = self.way() else { return false };
        let (Some(to), true) = (to, way.flow != Flow::Swallow) else {
            self.link.torn.store(true, Ordering::SeqCst);
            return true;
        };
        let (wait, drawn) = wait_of(way, bytes.len(), self.drawn);
        self.drawn = drawn;
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        let (passes, cut) = match way.flow {
            Flow::CutAfter(_) if self.left < bytes.len() as u64 => (self.left as usize, true),
            Flow::CutAfter(_) => {
                self.left -= bytes.len() as u64;
                (bytes.len(), false)
            }
            _ => (bytes.len(), false),
        };
        let written = self.write(to, &bytes[..passes]);
        if cut {
            self.control.tear(self.link);
        }
        written && !cut
    }

    /// The rule for these bytes; waits while it says hold. None when the connection is over.
    fn way(&mut self) -> Option<Way> {
        let mut rules = self.control.rules();
        loop {
            if self.link.over.load(Ordering::SeqCst) {
                return None;
            }
            let way = match self.link.spared.load(Ordering::SeqCst) {
                true => Way::default(),
                false if self.up => rules.0.up,
                false => rules.0.down,
            };
            if way.flow != Flow::Hold {
                if let (Flow::CutAfter(count), true) = (way.flow, self.change != Some(rules.1)) {
                    self.left = count;
                }
                self.change = Some(rules.1);
                return Some(way);
            }
            let waited = self.control.changed.wait_timeout(rules, LOOK_EVERY);
            rules = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn write(&self, to: &TcpStream, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if self.link.over.load(Ordering::SeqCst) {
                return false;
            }
            match Write::write(&mut &*to, bytes) {
                Ok(count) => {
                    self.control.passed.fetch_add(count as u64, Ordering::Relaxed);
                    bytes = &bytes[count..];
                }
                Err(error) if waits(&error) => {}
                Err(_) => {
                    self.control.tear(self.link);
                    return false;
                }
            }
        }
        true
    }
}

/// How long these bytes wait, and what was drawn for it.
fn wait_of(way: Way, bytes: usize, drawn: u64) -> (Duration, u64) {
    let drawn = mix(drawn.wrapping_add(bytes as u64).wrapping_add(1));
    let most = u64::try_from(way.jitter.as_micros()).unwrap_or(u64::MAX);
    let jitter = Duration::from_micros(drawn.checked_rem(most).unwrap_or(0));
    let narrow =
        (bytes as u64).saturating_mul(1_000_000).checked_div(way.bytes_per_second.unwrap_or(0));
    (way.delay + jitter + Duration::from_micros(narrow.unwrap_or(0)), drawn)
}

/// The waits of a pump, for a test: by chance, and never beyond the bound.
#[cfg(test)]
pub(super) fn tests_wait(way: Way) -> impl FnMut() -> Duration {
    let mut drawn = 0;
    move || {
        let (wait, next) = wait_of(way, 1, drawn);
        drawn = next;
        wait
    }
}
