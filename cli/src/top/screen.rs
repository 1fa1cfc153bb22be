//! The terminal as a screen, and the terminal as it was before: given back however this ends.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::{ThreadId, current};

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Rect;

/// The terminal that is a screen now, and how it was before.
struct Taken {
    terminal: File,
    before: Termios,
    /// Who draws on it.
    by: ThreadId,
}

/// At most one: a process has no more than one terminal.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

fn taken() -> MutexGuard<'static, Option<Taken>> {
    // A panic while it was locked leaves it usable: it is only replaced as a whole.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a screen of the terminal. Where it is one already, because nobody could give it back before the process was
/// stopped, it becomes one again.
fn take(mut terminal: File) -> io::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // So that its message can be read. Another thread's panic is no end of this one.
            if taken().as_ref().is_some_and(|taken| taken.by == current().id()) {
                give_back();
            }
            before(panic);
        }));
    });
    let mut taken = taken();
    let before = match taken.take() {
        Some(taken) => taken.before,
        None => tcgetattr(&terminal)?,
    };
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    tcsetattr(&terminal, SetArg::TCSADRAIN, &raw)?;
    execute!(terminal, EnterAlternateScreen)?;
    *taken = Some(Taken { terminal, before, by: current().id() });
    Ok(())
}

/// Makes the terminal what it was. Nothing happens where it is that already, or was hung up.
fn give_back() {
    if let Some(Taken { mut terminal, before, .. }) = taken().take() {
        execute!(terminal, LeaveAlternateScreen, Show).ok();
        terminal.flush().ok();
        tcsetattr(&terminal, SetArg::TCSADRAIN, &before).ok();
    }
}

/// The terminal, as something to draw on. Dropping it gives the terminal back; so does a panic.
pub(crate) struct Screen {
    file: File,
    pub(crate) terminal: Terminal<CrosstermBackend<File>>,
}

impl Screen {
    /// Takes the terminal that controls this process.
    pub(crate) fn take() -> io::Result<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty")?;
        let terminal = Terminal::new(CrosstermBackend::new(file.try_clone()?))?;
        let mut screen = Self { file, terminal };
        screen.take_again()?;
        Ok(screen)
    }

    /// After the process was stopped: whoever had the terminal meanwhile has left something on it.
    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        take(self.file.try_clone()?)?;
        // Clears the screen. `clear` would ask where the cursor is, and read the answer from under the keyboard's thread.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from(size))
    }

    /// Before the process stops.
    #[expect(clippy::unused_self, reason = "who has a screen may give it back")]
    pub(crate) fn leave(&mut self) {
        give_back();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::panic::catch_unwind;
    use std::sync::mpsc;
    use std::time::Duration;

    use nix::pty::openpty;
    use nix::sys::termios::LocalFlags;

    use super::*;

    fn echoes(terminal: &File) -> bool {
        tcgetattr(terminal).unwrap().local_flags.contains(LocalFlags::ECHO)
    }

    /// One test, because a process has one terminal.
    #[test]
    fn a_panic_gives_the_terminal_back_and_so_does_the_end() {
        let pair = openpty(None, None).unwrap();
        let (mut user, terminal) = (File::from(pair.master), File::from(pair.slave));
        let (sender, shown) = mpsc::channel();
        std::thread::spawn(move || {
            let mut some = [0; 256];
            while let Ok(length @ 1..) = user.read(&mut some) {
                sender.send(String::from_utf8_lossy(&some[..length]).into_owned()).unwrap();
            }
        });
        for panics in [true, false] {
            let file = terminal.try_clone().unwrap();
            catch_unwind(|| {
                take(file.try_clone().unwrap()).unwrap();
                take(file.try_clone().unwrap()).unwrap();
                assert!(!echoes(&file));
                // Another thread's is not the end of this screen.
                std::thread::spawn(|| panic!("on purpose")).join().unwrap_err();
                assert!(!echoes(&file));
                assert!(!panics, "on purpose");
                give_back();
            })
            .unwrap_or_default();
            assert!(echoes(&terminal), "as before");
            let mut all = String::new();
            while !all.ends_with("\x1b[?1049l\x1b[?25h") {
                all += &shown.recv_timeout(Duration::from_secs(5)).expect("the other screen, and the cursor");
            }
            assert!(all.starts_with("\x1b[?1049h"), "{all:?}");
        }
    }
}
