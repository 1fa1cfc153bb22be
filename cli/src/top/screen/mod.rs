//! Uses the terminal as a full screen, and restores it in every case, including a panic.

#[cfg(all(test, unix))]
mod tests;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::{ThreadId, current};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Rect;

#[cfg(unix)]
use self::unix as system;
#[cfg(windows)]
use self::windows as system;

/// The terminal in screen mode, with its previous settings.
struct SavedTerminal {
    terminal: File,
    before: system::Settings,
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
        None => system::settings(&terminal)?,
    };
    system::set_raw(&terminal, &before)?;
    execute!(terminal, EnterAlternateScreen)?;
    *saved = Some(SavedTerminal { terminal, before, by: current().id() });
    Ok(())
}

/// Restores the terminal. Does nothing if it is already restored or was hung up.
fn restore_terminal() {
    if let Some(SavedTerminal { mut terminal, before, .. }) = saved_terminal().take() {
        execute!(terminal, LeaveAlternateScreen, Show).ok();
        terminal.flush().ok();
        system::restore(&terminal, &before);
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
        let file = system::open()?;
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
