//! `zklock top`: shows all locks below a path and updates them continuously.

mod directory;
mod keys;
mod lock_table;
mod rotation;
mod rows;
mod screen;
mod survey;
mod view;

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use ratatui::crossterm::event::{self, Event};
use serde_json::json;
use tokio::sync::mpsc;
use zklock::Client;
use zklock::internal::Escaped;

use crate::connection::Connection;
use crate::duration;
use crate::failure::{Failure, UNREACHABLE};
use crate::missing::missing;
use crate::session::with_client;
use crate::signals::{Signal, Signals, has_job_control, stop_ourselves};
use crate::terminal_output::print;
use crate::top::keys::{Choice, Wanted};
use crate::top::rows::{Row, Sort, rows};
use crate::top::screen::Screen;
use crate::top::survey::Survey;
use crate::top::view::{Header, draw, page};

/// How long a single survey waits for a server that does not reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the terminal is kept while the session is being closed.
const CLOSING: Duration = Duration::from_millis(500);

const DETAILS: &str = "\
Keys:
  q, Esc, Ctrl-C   quit                   /   filter by a text in the path, holder or session
  w p a g o        sort by waiting, path, age, grants, holder; r reverses
  f                show free locks too    arrows, PgUp, PgDn, Home, End   scroll

Columns:
  MODE       mutex, write, read, leader; for a semaphore, the number of permits taken
  GRANTS/S   contenders that left the queue per second, over 10 s, including waiters that gave up
  HELD FOR   age of the hold; '<=' marks an upper bound, because zklock did not see the grant

Examples:
  zklock top /locks
  zklock top --once /locks                     # print a table and exit
  zklock top --once --json /locks | jq '.locks[] | select(.waiting > 10).path'
  zklock top --json --interval 10 /locks       # one object per line, every ten seconds";

/// Show all locks below a path, with holders, waiters, ages and rates, and update them continuously
///
/// It joins no queue and sets no watches. The number of requests per second is limited: if there
/// are very many locks, it reads each one less often. If the output is not a terminal, use --once
/// or --json.
#[derive(Args, Debug)]
#[command(after_help = DETAILS)]
pub(crate) struct Options {
    /// Where to look for locks
    path: String,
    /// How often to read and to draw: 1, 0.5, 500ms, 10s
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Read everything once, print a table, and exit
    #[arg(long)]
    once: bool,
    /// Print one JSON object per line instead of a screen
    #[arg(long)]
    json: bool,
    /// The order of the rows
    #[arg(long, value_enum, default_value_t = Sort::Waiting)]
    sort: Sort,
    /// Show only locks whose path, holder or session contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// The maximum number of requests per second; a listing counts as one additional request for
    /// every 100 names in it
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    requests: u32,
    #[command(flatten)]
    connection: Connection,
}

fn interval(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    let interval = duration::parse(text)?;
    if interval < least { Err("must be at least 100ms".to_owned()) } else { Ok(interval) }
}

pub(crate) fn top(options: &Options) -> Result<u8, Failure> {
    if !(options.once || options.json || stdout().is_terminal()) {
        return Err(Failure::usage(
            "standard output is not a terminal: use --once for a table, or --json for programs",
        ));
    }
    with_client(&options.connection, async |client| {
        // Take over the screen only after the client has connected. If the connection fails, the
        // user must be able to read the error.
        let survey =
            Survey::new(client.clone(), &options.path, options.interval, options.requests, options.once);
        if options.once || options.json {
            print_all(options, client, survey).await
        } else {
            show(options, client, survey).await
        }
    })
}

impl Options {
    fn choice(&self) -> Choice {
        Choice { sort: self.sort, filter: self.filter.clone(), ..Choice::default() }
    }
}

/// Returns the current rows.
fn all_rows(survey: &Survey) -> Vec<Row> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    rows(&survey.lock_table, Instant::now(), i64::try_from(now_ms).unwrap_or(i64::MAX))
}

/// Prints a table or JSON, once or in every interval.
async fn print_all(options: &Options, client: &Client, mut survey: Survey) -> Result<u8, Failure> {
    let mut signals = Signals::listen(&ENDING_SIGNALS)?;
    // Include free locks: programs can filter the output themselves.
    let choice = Choice { free: true, ..options.choice() };
    let mut next = Instant::now() + options.interval;
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => return Err(Failure::signal(signal as i32)),
            looked = survey.run_until(next) => looked?,
        }
        if let Some(silent) = survey.silent().filter(|silent| options.once && *silent > PATIENCE) {
            let (hosts, silent) = (client.hosts(), silent.as_secs());
            return Err(Failure::new(
                UNREACHABLE,
                format!("no server of {hosts} has answered for {silent} s"),
            ));
        }
        let due = if options.once { survey.is_complete() } else { Instant::now() >= next };
        if !due {
            // Every directory is up to date, and the next survey is not due yet.
            if survey.is_complete() {
                tokio::time::sleep(next.saturating_duration_since(Instant::now()).min(options.interval / 10))
                    .await;
            }
            continue;
        }
        let rows = choice.of(all_rows(&survey));
        if options.json {
            let locks: Vec<_> = rows.iter().map(Row::to_json).collect();
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let (silent, requests) = (survey.silent(), survey.requests());
            let line = json!({
                "time": u64::try_from(time).unwrap_or(u64::MAX),
                "hosts": client.hosts(),
                "connection": client.state().as_str(),
                "silent_for_ms": silent.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
                "requests_per_second": requests,
                "directories": survey.lock_table.entries().filter(|(_, entry)| entry.seen.is_some()).count(),
                "locks": locks,
            });
            print(format_args!("{line}\n"))?;
        } else if rows.is_empty() {
            let why = missing(client, &options.path).await.map_or_else(String::new, |why| format!(": {why}"));
            print(format_args!("no locks below {}{why}\n", Escaped(&options.path)))?;
        } else {
            print(table(&rows))?;
        }
        if options.once {
            return Ok(0);
        }
        next += options.interval;
    }
}

/// Formats the rows as a plain table.
fn table(rows: &[Row]) -> String {
    let paths: Vec<_> = rows.iter().map(|row| Escaped(&row.path).to_string()).collect();
    let width = paths.iter().map(|path| path.chars().count()).max().unwrap_or_default();
    let line = |(row, path): (&Row, &String)| {
        let age = row.age.map(rows::Age::shown).unwrap_or_default();
        let (state, mode, waiting, who) = (row.state.as_str(), &row.mode, row.waiting, row.who());
        let text = format!(
            "{path:width$}  {state:7}  {mode:9}  {waiting:>5} waiting  {age:12}  {who}  {}",
            row.session()
        );
        format!("{}\n", text.trim_end())
    };
    rows.iter().zip(&paths).map(line).collect()
}

/// Signals that end the view.
const ENDING_SIGNALS: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// Runs the view on the terminal.
async fn show(options: &Options, client: &Client, survey: Survey) -> Result<u8, Failure> {
    let mut screen = Screen::open().map_err(|error| undrawn(&error))?;
    let outcome = watch(options, client, survey, &mut screen).await;
    // Close the session before the terminal is restored, so that the process exits soon after that.
    // If a signal ended the view, the keyboard thread still reads input until the exit, and would
    // take input that the user types for the shell.
    tokio::time::timeout(CLOSING, client.close()).await.ok();
    outcome
}

fn undrawn(error: &std::io::Error) -> Failure {
    Failure::system("cannot draw on the terminal", error)
}

/// Draws the screen and handles keys until a key or a signal ends the view.
async fn watch(
    options: &Options,
    client: &Client,
    mut survey: Survey,
    screen: &mut Screen,
) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| undrawn(&error);
    let mut signals = Signals::listen(&ENDING_SIGNALS)?;
    signals.add([Signal::SIGTSTP, Signal::SIGCONT])?;
    let mut keyboard = Keyboard::new();
    let mut choice = options.choice();
    let hosts = client.hosts();
    let mut next = Instant::now();
    loop {
        let shown = choice.of(all_rows(&survey));
        let header = Header {
            path: &options.path,
            hosts: &hosts,
            silent: survey.silent(),
            directories: survey.lock_table.entries().count(),
            pending: !survey.is_complete(),
            full: survey.lock_table.is_full(),
            requests: survey.requests(),
            interval: options.interval,
        };
        let drawn =
            screen.terminal.draw(|frame| draw(frame, &header, &mut choice, &shown)).map_err(failed)?;
        let page = page(drawn.area.height);
        // Plan the next drawing one interval after the planned time of this one, but not in the
        // past.
        next = Instant::now().max(next + options.interval).min(Instant::now() + options.interval);
        let looked = async {
            while Instant::now() < next {
                survey.run_until(next).await?;
                if survey.is_complete() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Ok::<_, Failure>(())
        };
        let wanted = tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::SIGTSTP => Wanted::Stop,
                Signal::SIGCONT => {
                    screen.redraw().map_err(failed)?;
                    Wanted::Nothing
                }
                signal => return Err(Failure::signal(signal as i32)),
            },
            event = keyboard.next() => match event {
                Some(event) => choice.follow(&event, page),
                None => Wanted::Quit,
            },
            looked = looked => { looked?; Wanted::Nothing }
        };
        match wanted {
            Wanted::Quit => return Ok(0),
            Wanted::Stop if has_job_control() => {
                screen.restore();
                stop_ourselves();
                screen.redraw().map_err(failed)?;
            }
            Wanted::Stop | Wanted::Nothing => {}
        }
    }
}

/// Keyboard and resize events. A thread reads them until the process exits. It reads an event only
/// when it is asked to. So input that follows the key that ends the view is left for the shell.
struct Keyboard {
    asks: std::sync::mpsc::Sender<()>,
    asked: bool,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Keyboard {
    fn new() -> Self {
        let (asks, asked) = std::sync::mpsc::channel();
        let (sender, events) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                let Ok(event) = event::read() else { break };
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        Self { asks, asked: false, events }
    }

    /// Returns the next event, or `None` if the terminal is gone. Cancel safe: after cancellation,
    /// the next call returns the same event.
    async fn next(&mut self) -> Option<Event> {
        if !self.asked {
            // Ignore an error: if the thread has exited, the channel of events reports that below.
            self.asks.send(()).ok();
            self.asked = true;
        }
        let event = self.events.recv().await;
        self.asked = false;
        event
    }
}
