//! `duly top`: what a server does right now. In a terminal a page that is drawn again every few
//! seconds, until q or Ctrl-C; elsewhere, with `--once` or `--json`, one page and the end.
//!
//! ```text
//!   look (one look at the server) ─► frame (two looks, what lies between) ─► draw ─► screen
//! ```
//!
//! What it does not do: decide or change anything, or ask for more than bounded pages.

mod draw;
mod frame;
mod look;
mod screen;

use crate::client::{Server, runtime};
use crate::failure::{EXIT_UNREACHABLE, EXIT_USAGE, Failure};
use frame::Frame;
use look::Look;
use screen::{Screen, Size, Turn};
use std::io::IsTerminal;
use std::time::Duration;

/// A shorter interval only shows noise, and costs the server its pages.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Look again after so long; rates are of this time
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Print one page and end, also in a terminal
    #[arg(long)]
    once: bool,
    /// Print one page as JSON for programs and end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

fn interval(text: &str) -> Result<Duration, String> {
    let micros = wire::duration::parse(text).map_err(|error| error.to_string())?;
    let given = Duration::from_micros(micros.unsigned_abs());
    match (INTERVAL_MIN..=INTERVAL_MAX).contains(&given) {
        true => Ok(given),
        false => Err("an interval lies between 200ms and 1h".to_string()),
    }
}

pub fn run(args: &Args) -> Result<String, Failure> {
    let first = Look::at(&args.server)?;
    if args.json || args.once || !std::io::stdout().is_terminal() {
        std::thread::sleep(args.interval);
        let frame = Frame::between(&first, &Look::at(&args.server)?);
        return match args.json {
            true => frame.json(),
            false => Ok(draw::page(&frame, Size::UNBOUNDED)),
        };
    }
    live(args, first)?;
    Ok(String::new())
}

/// Draws until somebody has seen enough. Whatever ends it, the terminal is as it was before.
fn live(args: &Args, first: Look) -> Result<(), Failure> {
    let runtime = runtime()?;
    let mut screen = runtime.block_on(async { Screen::open() }).map_err(no_screen)?;
    let mut before = first;
    let mut frame = Frame::between(&before, &before);
    loop {
        let page = draw::page(&frame, screen.size());
        if screen.show(&page).is_err() {
            return Ok(()); // Nobody is looking any more.
        }
        match runtime.block_on(screen.wait(args.interval)) {
            Turn::Quit => return Ok(()),
            Turn::Redraw => continue,
            Turn::Again => {}
        }
        match Look::at(&args.server) {
            Ok(now) => {
                frame = Frame::between(&before, &now);
                before = now;
            }
            // A server that restarts comes back; what was seen last stays on the screen.
            Err(failure) if failure.exit == EXIT_UNREACHABLE => {
                frame.trouble = Some(failure.message);
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn no_screen(error: std::io::Error) -> Failure {
    Failure {
        exit: EXIT_USAGE,
        message: format!("the terminal cannot be used: {error}"),
        help: "duly top --once".to_string(),
    }
}
