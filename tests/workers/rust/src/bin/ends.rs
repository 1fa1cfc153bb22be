//! A small program that acquires a lock, prints `holding`, and waits for a line. Then it exits
//! while it holds the lock, or leaves a scope. The first argument selects how it does this.

use std::future::pending;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use zklock::{Client, ClientOptions, Lease, Mutex, blocking};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush()).expect("the test reads this");
}

fn holding() {
    say("holding");
    std::io::stdin().read_line(&mut String::new()).expect("the test writes a line");
}

fn options(hosts: &str) -> zklock::Result<ClientOptions> {
    // If a node remains, the test must see it, so the session must not expire during the test.
    ClientOptions::new(Some(hosts))?.session_timeout(Duration::from_secs(30))
}

async fn lock(hosts: String, path: String) -> zklock::Result<(Client, Mutex)> {
    let client = Client::connect_with(options(&hosts)?).await?;
    let lock = Mutex::new(&client, path)?;
    Ok((client, lock))
}

/// Acquires the lock. Returns all objects that the caller must keep while it holds the lock.
async fn hold(hosts: String, path: String) -> zklock::Result<(Client, Mutex, Lease)> {
    let (client, lock) = lock(hosts, path).await?;
    let lease = lock.acquire().await?;
    holding();
    Ok((client, lock, lease))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// Prints `dropped` when it is dropped.
struct Body;

impl Drop for Body {
    fn drop(&mut self) {
        say("dropped");
    }
}

/// Runs a scope that ends in the way that `manner` names.
async fn scope(manner: &str, hosts: String, path: String) -> Outcome<()> {
    let (_client, lock) = lock(hosts, path).await?;
    let begun = tokio::sync::Notify::new();
    let endless = || {
        lock.hold(|_| async {
            let _body = Body;
            say("holding");
            begun.notify_one();
            pending::<u32>().await
        })
    };
    match manner {
        "scope that is lost" => say(endless().await.expect_err("a loss").code()),
        "scope that is dropped" => {
            tokio::select! {
                outcome = endless() => drop(outcome?),
                () = begun.notified() => {}
            }
            holding();
        }
        _ => {
            let number = lock.hold(|lease| async move {
                lease.check()?;
                Ok::<_, zklock::Error>(42)
            });
            say(&number.await??.to_string());
            holding();
        }
    }
    Ok(())
}

/// Exits in a forked child, and checks that the parent's session is still open.
async fn fork(hosts: String, path: String) -> Outcome<()> {
    let (_client, lock, lease) = hold(hosts, path).await?;
    // SAFETY: the child only exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        std::process::exit(0);
    }
    // SAFETY: a plain call.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    lease.check()?;
    say(&format!("{} contender", lock.contenders().await?.len()));
    Ok(())
}

fn main() -> Outcome<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let (Some(manner), Some(hosts), Some(path)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: ends MANNER HOSTS PATH".into());
    };
    match manner.as_str() {
        "return" => {
            let _held = block_on(hold(hosts, path))?;
        }
        // The lease is never dropped, like a value in a static.
        "forget" => std::mem::forget(block_on(hold(hosts, path))?),
        "exit" => {
            let _held = block_on(hold(hosts, path))?;
            std::process::exit(7);
        }
        "exit in a thread" => {
            let _held = block_on(hold(hosts, path))?;
            std::thread::spawn(|| std::process::exit(7)).join().ok();
        }
        "error" => {
            let _held = block_on(hold(hosts, path))?;
            return Err("it fails".into());
        }
        "panic" => {
            let _held = block_on(hold(hosts, path))?;
            panic!("on purpose, in main");
        }
        "panic in a task" => block_on(async {
            let task = tokio::task::spawn_local(async {
                let _held = hold(hosts, path).await.expect("the lock");
                panic!("on purpose, in a task");
            });
            task.await.expect_err("a panic");
        }),
        "blocking" => {
            let client = blocking::Client::connect_with(options(&hosts)?)?;
            let _lease = blocking::Mutex::new(&client, path)?.acquire()?;
            holding();
        }
        "fork" => block_on(fork(hosts, path))?,
        "handled signal" => {
            zklock::close_on_signals()?;
            let _held = block_on(hold(hosts, path))?;
            std::thread::sleep(Duration::from_secs(60));
        }
        "handled signal, blocked by the main thread" => {
            zklock::close_on_signals()?;
            // The kernel does not ignore a signal that process 1 raises if its main thread blocks it.
            std::thread::spawn(|| std::thread::sleep(Duration::from_secs(60)));
            zklock::internal::block_signals();
            let _held = block_on(hold(hosts, path))?;
            std::thread::sleep(Duration::from_secs(60));
        }
        "signal" => {
            let _held = block_on(hold(hosts, path))?;
            std::thread::sleep(Duration::from_secs(60));
        }
        scoped if scoped.starts_with("scope") => block_on(scope(scoped, hosts, path))?,
        other => return Err(format!("no such manner: {other}").into()),
    }
    Ok(ExitCode::SUCCESS)
}
