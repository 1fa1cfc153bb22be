//! Uses the terminal as a full screen, and restores it in every case, including a panic.

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

/// The terminal in screen mode, with its previous settings.
struct SavedTerminal {
    terminal: File,
    before: Termios,
    /// Thread that draws on the terminal.
    by: ThreadId,
}

/// The terminal in use. A process has at most one.
static SAVED_TERMINAL: Mutex<Option<SavedTerminal>> = Mutex::new(None);

fn saved_terminal() -> MutexGuard<'static, Option<SavedTerminal>> {
    // Ignore poisoning: the value is only replaced as a whole, so it is valid even after a panic.
    SAVED_TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Switches the terminal to full-screen mode, and saves its settings. If the process was stopped
/// before it could restore the terminal, the terminal is still in this mode, and the function keeps
/// the settings that it saved earlier.
fn enter_screen_mode(mut terminal: File) -> io::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // Restore the terminal, so that the panic message is readable. Ignore a panic of
            // another thread, because the screen stays in use.
            if saved_terminal().as_ref().is_some_and(|saved| saved.by == current().id()) {
                restore_terminal();
            }
            before(panic);
        }));
    });
    let mut saved = saved_terminal();
    let before = match saved.take() {
        Some(saved) => saved.before,
        None => tcgetattr(&terminal)?,
    };
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    tcsetattr(&terminal, SetArg::TCSADRAIN, &raw)?;
    execute!(terminal, EnterAlternateScreen)?;
    *saved = Some(SavedTerminal { terminal, before, by: current().id() });
    Ok(())
}

/// Restores the terminal. Does nothing if it is already restored or was hung up.
fn restore_terminal() {
    if let Some(SavedTerminal { mut terminal, before, .. }) = saved_terminal().take() {
        execute!(terminal, LeaveAlternateScreen, Show).ok();
        terminal.flush().ok();
        tcsetattr(&terminal, SetArg::TCSADRAIN, &before).ok();
    }
}

/// The terminal as a drawing surface. Dropping it restores the terminal, and so does a panic.
pub(crate) struct Screen {
    file: File,
    pub(crate) terminal: Terminal<CrosstermBackend<File>>,
}

impl Screen {
    /// Puts the controlling terminal of this process in screen mode.
    pub(crate) fn open() -> io::Result<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty")?;
        let terminal = Terminal::new(CrosstermBackend::new(file.try_clone()?))?;
        let mut screen = Self { file, terminal };
        screen.redraw()?;
        Ok(screen)
    }

    /// Redraws everything after the process was stopped, because other programs might have written
    /// to the terminal.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        enter_screen_mode(self.file.try_clone()?)?;
        // `resize` clears the screen. `clear` would query the cursor position, and the keyboard
        // thread would compete for the reply.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from(size))
    }

    /// Restores the terminal before the process stops.
    #[expect(clippy::unused_self, reason = "who has a screen may give it back")]
    pub(crate) fn restore(&mut self) {
        restore_terminal();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal();
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

    /// One test for both cases, because a process has only one terminal.
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
                enter_screen_mode(file.try_clone().unwrap()).unwrap();
                enter_screen_mode(file.try_clone().unwrap()).unwrap();
                assert!(!echoes(&file));
                // A panic of another thread does not end this screen.
                std::thread::spawn(|| panic!("on purpose")).join().unwrap_err();
                assert!(!echoes(&file));
                assert!(!panics, "on purpose");
                restore_terminal();
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
