//! Runs the demo: starts the processes, samples the queue, kills one process, and checks the run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use zklock::{Client, Contender, Mutex, Owner};

use crate::demo::Options;
use crate::demo::contestant::Contestant;
use crate::demo::picture::{LaneState, Picture};
use crate::demo::svg::svg;
use crate::failure::Failure;
use crate::terminal_output::print;

pub(super) const PATH: &str = "/demo/lock";
/// In a demo without `--with`, `PROCESSES` processes run at the same time. `VICTIM` is the index of
/// the killed one, and `GRANTS` the total number of grants.
const PROCESSES: usize = 4;
const VICTIM: usize = 1;
const GRANTS: usize = 11;
/// Time from the victim's grant to its kill.
const INTO_THE_HOLD: Duration = Duration::from_millis(150);
/// Interval between two samples of the queue.
const STEP: Duration = Duration::from_millis(50);
/// Expected duration without `--with`.
const EXPECTED: Duration = Duration::from_secs(8);
/// Maximum duration of a demo: `LIMIT` without `--with`, and `LIMIT_OF_PROGRAMS` with it. All
/// processes must be in the queue within half of that time.
const LIMIT: Duration = Duration::from_secs(18);
const LIMIT_OF_PROGRAMS: Duration = Duration::from_secs(90);

pub(super) struct Play {
    plain: bool,
    /// `true` if the user's programs contend.
    programs: bool,
    svg: Option<PathBuf>,
    contestants: Vec<Contestant>,
    victim: usize,
    picture: Picture,
    /// Number of lines that the next picture overwrites.
    drawn: usize,
    began: Instant,
    newest: i64,
    in_order: bool,
    /// Time from the kill until the lock was granted again.
    freed: Option<Duration>,
}

impl Play {
    pub(super) fn new(options: &Options, zklock: &Path, hosts: &str, plain: bool) -> Self {
        let programs = !options.programs.is_empty();
        let contestants: Vec<_> = if programs {
            let all = options.programs.iter();
            all.map(|program| Contestant::of_program(program, hosts, plain)).collect()
        } else {
            (1..=PROCESSES).map(|number| Contestant::of_zklock_run(number, zklock, hosts)).collect()
        };
        let titles = contestants.iter().map(|contestant| contestant.title.clone()).collect();
        Self {
            plain,
            programs,
            svg: options.picture.clone(),
            victim: if programs { contestants.len() - 1 } else { VICTIM },
            contestants,
            picture: Picture::new(titles, STEP),
            drawn: 0,
            began: Instant::now(),
            newest: 0,
            in_order: true,
            freed: None,
        }
    }

    pub(super) async fn perform(&mut self, client: &Client) -> Result<u8, Failure> {
        print(format_args!(
            "{} processes contend for {PATH} on a server in memory, which is for development only.\n\
             Each holds it several times; one is killed while it holds the lock.\n\n",
            self.contestants.len(),
        ))?;
        let lock = Mutex::new(client, PATH)?;
        self.start(&lock).await?;
        let mut next = self.began;
        loop {
            self.sample(&lock.contenders().await?)?;
            let continues = self.follow()?;
            self.draw(!continues)?;
            if !continues {
                return self.conclude(lock.contenders().await?.len());
            }
            next += STEP;
            tokio::time::sleep(next.saturating_duration_since(Instant::now())).await;
        }
    }

    fn limit(&self) -> Duration {
        if self.programs { LIMIT_OF_PROGRAMS } else { LIMIT }
    }

    /// Starts all processes, and holds the lock until every process waits for it.
    async fn start(&mut self, lock: &Mutex) -> Result<(), Failure> {
        let lease = lock.acquire_as(&Owner::new(), Duration::from_secs(5)).await?;
        for contestant in &mut self.contestants {
            contestant.start()?;
        }
        let queue = loop {
            let queue = lock.contenders().await?;
            if queue.len() > self.contestants.len() {
                break queue;
            }
            for contestant in &mut self.contestants {
                if let Some(status) = contestant.ended()? {
                    return Err(contestant.failure(status));
                }
            }
            if self.began.elapsed() > self.limit() / 2 {
                let waiting = format!("{} of {}", queue.len() - 1, self.contestants.len());
                return Err(Failure::system(
                    &format!("not every process requested {PATH} in time"),
                    &waiting,
                ));
            }
            tokio::time::sleep(STEP).await;
        };
        // Every process has a node in the queue now. If the process id of a contestant is in no
        // node's data, its client writes no data, as Curator does.
        let absent = |contestant: &&mut Contestant| !queue.iter().any(|node| contestant.owns(node));
        if let Some(anonymous) = self.contestants.iter_mut().find(absent) {
            anonymous.is_anonymous = true;
        }
        self.began = Instant::now();
        for contestant in &mut self.contestants {
            contestant.queued = self.began;
        }
        lease.release().await?;
        Ok(())
    }

    /// Records the state of each contestant.
    fn sample(&mut self, queue: &[Contender]) -> Result<(), Failure> {
        let mut sample = vec![LaneState::Nothing; self.contestants.len()];
        for contender in queue {
            let Some(number) = self.contestants.iter().position(|one| one.owns(contender)) else { continue };
            let dead = self.contestants[number].killed.is_some();
            sample[number] = match contender.position {
                0 if dead => LaneState::Orphaned,
                0 => LaneState::Holds,
                _ => LaneState::Waits,
            };
            if contender.position == 0 && contender.fencing_token != self.contestants[number].token {
                self.granted(number, contender.fencing_token)?;
            }
        }
        if let Some(previous) = self.picture.samples().last().filter(|_| self.programs) {
            // A program's next wait begins when its hold ends.
            for (number, contestant) in self.contestants.iter_mut().enumerate() {
                if previous[number] == LaneState::Holds && sample[number] != LaneState::Holds {
                    contestant.queued = Instant::now();
                }
            }
        }
        self.picture.add(sample);
        Ok(())
    }

    fn granted(&mut self, number: usize, token: i64) -> Result<(), Failure> {
        self.in_order &= token > self.newest;
        self.newest = token;
        let killed = self.contestants.iter().find_map(|contestant| contestant.killed);
        if let (Some(killed), None) = (killed, self.freed) {
            self.freed = Some(killed.elapsed());
        }
        let contestant = &mut self.contestants[number];
        contestant.token = token;
        contestant.grants += 1;
        contestant.granted = Instant::now();
        let waited = contestant.queued.elapsed().as_secs_f64();
        let title = contestant.title.clone();
        self.log(&format!("{title} holds the lock, with fencing token {token}, after {waited:.1} s"))
    }

    /// Replaces processes that have ended, and kills the victim in its second hold. Returns `true`
    /// while any process runs.
    fn follow(&mut self) -> Result<bool, Failure> {
        if self.began.elapsed() > self.limit() {
            return Err(Failure::system("the demo took too long", &"this machine is very busy; try again"));
        }
        for contestant in &mut self.contestants {
            if let Some(status) = contestant.ended()? {
                if !status.success() && contestant.killed.is_none() {
                    return Err(contestant.failure(status));
                }
                if contestant.continues() {
                    contestant.start()?;
                }
            }
        }
        let victim = &mut self.contestants[self.victim];
        if victim.killed.is_none()
            && victim.holds_again(self.newest)
            && victim.granted.elapsed() > INTO_THE_HOLD
        {
            victim.kill();
            let event = format!("{} is killed while it holds the lock; {}", victim.title, victim.session());
            self.picture.kill(self.victim);
            self.log(&event)?;
        }
        Ok(self.contestants.iter().any(Contestant::runs))
    }

    /// Prints a line for an event in plain mode.
    fn log(&self, event: &str) -> Result<(), Failure> {
        if !self.plain {
            return Ok(());
        }
        print(format_args!("{:6.2} s  {event}\n", self.began.elapsed().as_secs_f64()))
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
        let expected = if last || self.programs { Duration::ZERO } else { EXPECTED };
        let lines = self.picture.lines(width.saturating_sub(1), expected, !self.plain);
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

    /// Prints the result and writes the picture. Returns the exit status, which is 1 if the lock
    /// did not work as promised.
    fn conclude(&self, left: usize) -> Result<u8, Failure> {
        let victim = &self.contestants[self.victim];
        if victim.killed.is_none() {
            let advice =
                "the last program must acquire it at least twice, so that it can be killed in between";
            let grants = format!("acquired {PATH} {} times; {advice}", victim.grants);
            return Err(Failure::system(&victim.title, &grants));
        }
        let grants: usize = self.contestants.iter().map(|contestant| contestant.grants).sum();
        let freed =
            self.freed.map_or("never".to_owned(), |time| format!("after {:.1} s", time.as_secs_f64()));
        let order = if self.in_order {
            "each with a higher fencing token"
        } else {
            "NOT in the order of their tokens"
        };
        let result = format!(
            "{grants} grants, {order}. After the kill, the next process got the lock {freed}. {left} nodes left."
        );
        print(format_args!("\n{result}\n"))?;
        if let Some(file) = &self.svg {
            std::fs::write(file, svg(&self.picture, &result)).map_err(|error| {
                Failure::system("cannot write the picture", &format!("{}: {error}", file.display()))
            })?;
            print(format_args!("Picture: {}\n", file.display()))?;
        }
        if !self.programs {
            print(
                "\nTry it now:    zklock dev &                       # the same server, until you stop it\n               \
                 zklock run /locks/try -- sleep 30 &\n               zklock top /locks\n",
            )?;
        }
        let all = if self.programs {
            self.contestants.iter().all(|contestant| contestant.grants > 0)
        } else {
            grants == GRANTS
        };
        Ok(u8::from(!all || !self.in_order || self.freed.is_none() || left > 0))
    }
}
