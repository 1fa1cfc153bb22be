//! The user's view settings, and the keys that change them. Pure.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::top::rows::{Row, Sort};

/// Help for the keys, shown in the last line of the screen.
pub(crate) const HELP: &str = "q quit  / filter  sort: w p a g o  r reverse  f free locks  arrows";

/// View settings: filter, sort order and scroll position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    pub(crate) sort: Sort,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// True while the user types the filter.
    pub(crate) typing: bool,
    /// True if free locks are shown too.
    pub(crate) free: bool,
    /// Index of the first visible row.
    pub(crate) offset: usize,
}

/// An action that a key requests. Keys that only change settings request `Nothing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Nothing,
    Quit,
    Stop,
}

impl Choice {
    /// Filters and sorts the rows.
    pub(crate) fn of(&self, mut rows: Vec<Row>) -> Vec<Row> {
        use crate::top::rows::State;
        let quiet = |row: &Row| row.state == State::Free && row.rate.is_none_or(|rate| rate == 0.0);
        rows.retain(|row| (self.free || !quiet(row)) && row.matches(&self.filter));
        self.sort.sort(&mut rows, self.reversed);
        rows
    }

    /// Handles a terminal event. `page` is the number of rows on the screen.
    pub(crate) fn follow(&mut self, event: &Event, page: usize) -> Wanted {
        let Event::Key(key) = event else { return Wanted::Nothing };
        if key.kind == KeyEventKind::Release {
            return Wanted::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Wanted::Quit,
                KeyCode::Char('z') => Wanted::Stop,
                _ => Wanted::Nothing,
            };
        }
        if self.typing {
            self.write(*key);
            return Wanted::Nothing;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Wanted::Quit,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('f') => self.free = !self.free,
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('w') => self.sort = Sort::Waiting,
            KeyCode::Char('p') => self.sort = Sort::Path,
            KeyCode::Char('a') => self.sort = Sort::Age,
            KeyCode::Char('g') => self.sort = Sort::Grants,
            KeyCode::Char('o') => self.sort = Sort::Holder,
            KeyCode::Down | KeyCode::Char('j') => self.offset = self.offset.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.offset = self.offset.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.offset = self.offset.saturating_add(page),
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(page),
            KeyCode::Home => self.offset = 0,
            KeyCode::End => self.offset = usize::MAX,
            _ => {}
        }
        Wanted::Nothing
    }

    /// Edits the filter. Enter keeps it, and Esc clears it.
    fn write(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.offset = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::top::rows::rows;
    use crate::top::rows::tests::{NOW_MS, example};

    fn press(choice: &mut Choice, code: KeyCode) -> Wanted {
        choice.follow(&Event::Key(KeyEvent::from(code)), 10)
    }

    #[test]
    fn a_filter_is_written_kept_and_dropped() {
        let mut choice = Choice::default();
        press(&mut choice, KeyCode::Char('/'));
        for letter in "quiz".chars() {
            assert_eq!(press(&mut choice, KeyCode::Char(letter)), Wanted::Nothing, "q is a letter here");
        }
        press(&mut choice, KeyCode::Backspace);
        press(&mut choice, KeyCode::Enter);
        assert_eq!((choice.filter.as_str(), choice.typing), ("qui", false));
        press(&mut choice, KeyCode::Char('/'));
        press(&mut choice, KeyCode::Esc);
        assert_eq!((choice.filter.as_str(), choice.typing), ("", false));
        assert_eq!(press(&mut choice, KeyCode::Esc), Wanted::Quit);
    }

    #[test]
    fn free_locks_are_shown_when_asked_for() {
        let now = Instant::now();
        let mut choice = Choice::default();
        let shown = |choice: &Choice| choice.of(rows(&example(now), now, NOW_MS)).len();
        assert_eq!(shown(&choice), 3);
        press(&mut choice, KeyCode::Char('f'));
        assert_eq!(shown(&choice), 4);
        choice.filter = "/nightly".to_owned();
        assert_eq!(shown(&choice), 1);
    }

    #[test]
    fn the_terminals_keys() {
        let mut choice = Choice::default();
        for (letter, wanted) in [('c', Wanted::Quit), ('z', Wanted::Stop), ('q', Wanted::Nothing)] {
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
            assert_eq!(choice.follow(&Event::Key(key), 10), wanted);
        }
        assert_eq!(press(&mut choice, KeyCode::Char('q')), Wanted::Quit);
    }
}
