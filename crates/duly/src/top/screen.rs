//! The terminal while `duly top` has it: another screen, no echo, keys one by one. Dropping it puts
//! everything back, whichever way the program leaves: q, Ctrl-C, a signal, a failure, a panic.

use rustix::termios::{self, OptionalActions, SpecialCodeIndex, Termios};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Another screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// What Ctrl-C and Ctrl-D are while the terminal hands over keys as they are.
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
/// How often somebody looks for a key: quicker than a finger feels.
const KEYS_EVERY: Duration = Duration::from_millis(40);

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub rows: usize,
    pub columns: usize,
}

impl Size {
    pub const UNBOUNDED: Size = Size { rows: usize::MAX, columns: usize::MAX };
}

/// What happened while the page stood.
#[derive(Debug)]
pub enum Turn {
    Quit,
    /// The terminal has another size, or somebody pressed a key.
    Redraw,
    /// Its time is over.
    Again,
}

#[derive(Debug)]
pub struct Screen {
    /// None: standard input is no terminal, and there are no keys.
    keys: Option<Keys>,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    resized: Signal,
}

#[derive(Debug)]
struct Keys {
    before: Termios,
}

impl Screen {
    /// Needs a runtime around it.
    pub fn open() -> io::Result<Screen> {
        let keys = if io::stdin().is_terminal() { Some(Keys::take()?) } else { None };
        let screen = Screen {
            keys,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            resized: signal(SignalKind::window_change())?,
        };
        write(ENTER)?;
        Ok(screen)
    }

    pub fn size(&self) -> Size {
        let size = termios::tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.map_or(Size { rows: 24, columns: 80 }, |size| Size {
            rows: usize::from(size.ws_row),
            columns: usize::from(size.ws_col),
        })
    }

    /// Over the old page, line by line: clearing first would flicker. The last line has no end, or
    /// a page as high as the terminal would scroll.
    pub fn show(&mut self, page: &str) -> io::Result<()> {
        let lines: Vec<&str> = page.lines().collect();
        write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))
    }

    pub async fn wait(&mut self, at_most: Duration) -> Turn {
        let key = async {
            match &self.keys {
                Some(keys) => keys.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(at_most) => Turn::Again,
            quit = key => if quit { Turn::Quit } else { Turn::Redraw },
            _ = self.resized.recv() => Turn::Redraw,
            _ = self.terminate.recv() => Turn::Quit,
            _ = self.interrupt.recv() => Turn::Quit,
            _ = self.hangup.recv() => Turn::Quit,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write(LEAVE);
    }
}

impl Keys {
    fn take() -> io::Result<Keys> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        // A read gives what is there, and does not wait.
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Keys { before })
    }

    /// True: whoever sits there has seen enough, or is gone.
    async fn next(&self) -> bool {
        let mut bytes = [0; 64];
        loop {
            match rustix::io::read(io::stdin(), &mut bytes) {
                Ok(0) | Err(rustix::io::Errno::INTR) => tokio::time::sleep(KEYS_EVERY).await,
                Ok(count) => {
                    let quit = |key: &u8| matches!(*key, b'q' | b'Q' | CTRL_C | CTRL_D);
                    return bytes[..count].iter().any(quit);
                }
                Err(_) => return true,
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
