//! `zklock demo`: several processes contend for one lock, and one is killed while it holds the
//! lock.

mod picture;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::Signal;
use zklock::internal::VARIABLES;
use zklock::{Client, ClientOptions, Contender, Mutex, Owner};
use zklock_embedded::{Settings, TestServer};

use crate::demo::picture::{LaneState, Picture};
use crate::failure::{Failure, UNREACHABLE};
use crate::session::runtime;
use crate::signals::Signals;
use crate::terminal_output::print;

/// Watch processes take turns with a lock, while one of them is killed holding it
///
/// Starts an in-memory server, for development only, and four processes that contend for one lock.
/// Each process is `zklock run` with a program that sleeps. Needs neither ZooKeeper nor Java, and
/// ends by itself after about ten seconds.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  zklock demo\n  zklock demo --plain      # a line for each event, as without a terminal"
)]
pub(crate) struct Options {
    /// Draw nothing over: a line for each event, and the picture at the end
    #[arg(long)]
    plain: bool,
}

const PATH: &str = "/demo/lock";
const CONTENDERS: usize = 4;
/// Number of rounds in which each process holds the lock.
const ROUNDS: usize = 3;
/// Duration of each hold, in seconds.
const HOLD: &str = "0.4";
/// Session timeout: the lock of a killed process stays taken for this long.
const SESSION: &str = "2s";
/// The process that is killed, the round in which it is killed, and how long it has held the lock
/// by then.
const VICTIM: usize = 2;
const FATAL_ROUND: usize = 2;
const INTO_THE_HOLD: Duration = Duration::from_millis(150);
/// Interval between two samples of the queue.
const STEP: Duration = Duration::from_millis(50);
/// Expected and maximum duration of the demo.
const EXPECTED: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(18);

/// Runs the demo. `program` is the path with which this program was called.
pub(crate) fn demo(options: &Options, program: &Path) -> Result<u8, Failure> {
    let server = TestServer::start_on(("127.0.0.1", 0), Settings::random())
        .map_err(|error| Failure::new(UNREACHABLE, format!("cannot listen on 127.0.0.1: {error}")))?;
    let hosts = server.hosts();
    let plain = options.plain
        || !stdout().is_terminal()
        || ["NO_COLOR", "CI"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    runtime()?.block_on(async {
        let mut signals = Signals::listen(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
        let client = Client::new(ClientOptions::new(Some(&hosts))?.label(Some("the demo".to_owned()))?);
        let mut play = Demo::new(own_program(program), hosts, plain);
        let outcome = tokio::select! {
            signal = signals.next() => Err(Failure::signal(signal as i32)),
            outcome = play.run(&client) => outcome,
        };
        client.close().await.ok();
        outcome
    })
}

/// Returns the path with which this program can be started again. If it is embedded in another
/// program, this is the path of its script.
fn own_program(program: &Path) -> PathBuf {
    let running = std::env::current_exe().ok();
    let by_name =
        |path: &PathBuf| path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("zklock"));
    running.filter(by_name).unwrap_or_else(|| program.to_owned())
}

/// A contender in the picture. It runs one process after the other, all with the same label.
struct Lane {
    label: String,
    process: Option<Child>,
    started: usize,
    /// Number of its processes that held the lock and then exited successfully or were killed.
    grants: usize,
    /// Fencing token of its last grant.
    token: i64,
    /// Time when the last grant was seen.
    granted: Instant,
    /// Time when its process was killed.
    killed: Option<Instant>,
    queued: Instant,
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

struct Demo {
    program: PathBuf,
    hosts: String,
    plain: bool,
    lanes: Vec<Lane>,
    picture: Picture,
    /// Number of lines that the next picture overwrites.
    drawn: usize,
    began: Instant,
    newest: i64,
    in_order: bool,
    /// Time from the kill until the lock was granted again.
    freed: Option<Duration>,
}

impl Demo {
    fn new(program: PathBuf, hosts: String, plain: bool) -> Self {
        let labels: Vec<_> = (1..=CONTENDERS).map(|number| format!("process {number}")).collect();
        let now = Instant::now();
        let lane = |label: &String| Lane {
            label: label.clone(),
            process: None,
            started: 0,
            grants: 0,
            token: 0,
            granted: now,
            killed: None,
            queued: now,
        };
        let lanes = labels.iter().map(lane).collect();
        let picture = Picture::new(labels, STEP);
        Self {
            program,
            hosts,
            plain,
            lanes,
            picture,
            drawn: 0,
            began: now,
            newest: 0,
            in_order: true,
            freed: None,
        }
    }

    async fn run(&mut self, client: &Client) -> Result<u8, Failure> {
        print(format_args!(
            "{CONTENDERS} processes contend for {PATH} on a server in memory, which is for development only.\n\
             Each holds it {ROUNDS} times; one is killed while it holds.\n\n"
        ))?;
        let lock = Mutex::new(client, PATH)?;
        // Hold the lock until all processes wait for it.
        let lease = lock.acquire_as(&Owner::new(), Duration::from_secs(5)).await?;
        for lane in 0..CONTENDERS {
            self.start(lane)?;
        }
        while lock.contenders().await?.len() <= CONTENDERS {
            if self.began.elapsed() > LIMIT / 2 {
                return Err(Failure::system("the processes did not start in time", &self.program.display()));
            }
            tokio::time::sleep(STEP).await;
        }
        self.began = Instant::now();
        for lane in &mut self.lanes {
            lane.queued = self.began;
        }
        lease.release().await?;
        let mut next = self.began;
        loop {
            self.record_queue(&lock.contenders().await?)?;
            let going_on = self.check_processes()?;
            self.draw(!going_on)?;
            if !going_on {
                return self.print_result(lock.contenders().await?.len());
            }
            next += STEP;
            tokio::time::sleep(next.saturating_duration_since(Instant::now())).await;
        }
    }

    /// Starts a lane's next process.
    fn start(&mut self, number: usize) -> Result<(), Failure> {
        let lane = &mut self.lanes[number];
        let mut command = Command::new(&self.program);
        for name in ["ZKLOCK_HOSTS"].into_iter().chain(VARIABLES) {
            // The demo must not use the user's own servers.
            command.env_remove(name);
        }
        let words =
            ["run", "-z", &self.hosts, "--session-timeout", SESSION, "--label", &lane.label, PATH, "--"];
        let words = words.map(OsString::from);
        command
            .args(words)
            .args(["sleep", HOLD])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().map_err(|error| {
            Failure::system("cannot start a process", &format!("{}: {error}", self.program.display()))
        })?;
        lane.process = Some(process);
        lane.started += 1;
        lane.queued = Instant::now();
        Ok(())
    }

    /// Records the state of each contender.
    fn record_queue(&mut self, queue: &[Contender]) -> Result<(), Failure> {
        let mut sample = vec![LaneState::Nothing; CONTENDERS];
        for contender in queue {
            let label = contender.about.as_ref().and_then(|about| about.label.as_deref());
            let Some(number) = self.lanes.iter().position(|lane| label == Some(&*lane.label)) else {
                continue;
            };
            let dead = self.lanes[number].killed.is_some();
            sample[number] = match contender.position {
                0 if dead => LaneState::Orphaned,
                0 => LaneState::Holds,
                _ => LaneState::Waits,
            };
            if contender.position == 0 && contender.fencing_token != self.lanes[number].token {
                self.granted(number, contender.fencing_token)?;
            }
        }
        self.picture.add(sample);
        Ok(())
    }

    fn granted(&mut self, number: usize, token: i64) -> Result<(), Failure> {
        self.in_order &= token > self.newest;
        self.newest = token;
        let killed = self.lanes.iter().find_map(|lane| lane.killed);
        if let (Some(killed), None) = (killed, self.freed) {
            self.freed = Some(killed.elapsed());
        }
        let lane = &mut self.lanes[number];
        lane.token = token;
        lane.granted = Instant::now();
        let waited = lane.queued.elapsed();
        let (label, waited) = (lane.label.clone(), waited.as_secs_f64());
        self.print_event(&format!("{label} holds, with fencing token {token}, after {waited:.1} s"))
    }

    /// Restarts processes that have ended, and kills the victim at the planned time. Returns `true`
    /// while any process runs.
    fn check_processes(&mut self) -> Result<bool, Failure> {
        if self.began.elapsed() > LIMIT {
            return Err(Failure::system("the demo took too long", &"this machine is very busy; try again"));
        }
        let mut going_on = false;
        for number in 0..CONTENDERS {
            let lane = &mut self.lanes[number];
            let Some(process) = &mut lane.process else { continue };
            let ended =
                process.try_wait().map_err(|error| Failure::system("cannot wait for a process", &error))?;
            if let Some(status) = ended {
                lane.process = None;
                if !status.success() && lane.killed.is_none() {
                    return Err(Failure::system(&format!("{} failed", lane.label), &status));
                }
                lane.grants += 1;
                if lane.killed.is_none() && lane.started < ROUNDS {
                    self.start(number)?;
                    going_on = true;
                }
                continue;
            }
            going_on = true;
            let holds = lane.token != 0 && lane.token == self.newest && lane.granted >= lane.queued;
            let fatal = number == VICTIM - 1 && lane.started == FATAL_ROUND && lane.killed.is_none();
            if fatal && holds && lane.granted.elapsed() > INTO_THE_HOLD {
                process.kill().ok();
                lane.killed = Some(Instant::now());
                let event =
                    format!("{} is killed while it holds; its session lasts for up to {SESSION}", lane.label);
                self.picture.kill(number);
                self.print_event(&event)?;
            }
        }
        Ok(going_on)
    }

    /// Prints a line for an event in plain mode.
    fn print_event(&self, what: &str) -> Result<(), Failure> {
        if !self.plain {
            return Ok(());
        }
        print(format_args!("{:6.2} s  {what}\n", self.began.elapsed().as_secs_f64()))
    }

    fn draw(&mut self, last: bool) -> Result<(), Failure> {
        if self.plain && !last {
            return Ok(());
        }
        let width = if self.plain {
            80
        } else {
            ratatui::crossterm::terminal::size().map_or(80, |(width, _)| usize::from(width))
        };
        let lines = self.picture.lines(
            width.saturating_sub(1),
            if last { Duration::ZERO } else { EXPECTED },
            !self.plain,
        );
        let mut text = String::new();
        if self.drawn > 0 {
            write!(text, "\x1b[{}A", self.drawn).unwrap_or_default();
        }
        for line in &lines {
            // Clear the rest of the line.
            writeln!(text, "{line}{}", if self.plain { "" } else { "\x1b[K" }).unwrap_or_default();
        }
        self.drawn = lines.len();
        print(text)
    }

    fn print_result(&self, left: usize) -> Result<u8, Failure> {
        let grants: usize = self.lanes.iter().map(|lane| lane.grants).sum();
        let freed =
            self.freed.map_or("never".to_owned(), |time| format!("after {:.1} s", time.as_secs_f64()));
        let order = if self.in_order {
            "each with a higher fencing token"
        } else {
            "NOT in the order of their tokens"
        };
        print(format_args!(
            "\n{grants} grants, {order}. After the kill the next one had the lock {freed}. {left} nodes left.\n\n\
             Now your own:  zklock dev &                       # the same server, until it is told to end\n               \
             zklock run /locks/try -- sleep 30 &\n               zklock top /locks\n"
        ))?;
        let expected = CONTENDERS * ROUNDS - (ROUNDS - FATAL_ROUND);
        Ok(u8::from(!self.in_order || self.freed.is_none() || left > 0 || grants != expected))
    }
}
