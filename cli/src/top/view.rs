//! Draws the rows on a screen of any size.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row as Cells, Table};
use zklock::internal::Escaped;

use crate::top::keys::{Choice, HELP};
use crate::top::rows::{Age, Row, State};

/// Number of lines above and below the rows, including the column titles.
const FRAME: u16 = 4;

/// Space between two columns.
const SPACING: u16 = 1;

/// Minimum number of characters of the path in the title, even on a narrow screen.
const LEAST: usize = 10;

/// Minimum width of a screen that shows sessions.
const WIDE: u16 = 110;

/// Width from which rates and ages are shown.
const MIDDLE: u16 = 72;

/// Content of the header lines.
pub(crate) struct Header<'a> {
    pub(crate) path: &'a str,
    pub(crate) hosts: &'a str,
    /// Time since the last reply of a server, if the client is disconnected.
    pub(crate) silent: Option<Duration>,
    pub(crate) directories: usize,
    /// True if some directories were not read yet.
    pub(crate) pending: bool,
    pub(crate) full: bool,
    pub(crate) requests: f64,
    pub(crate) interval: Duration,
}

/// Returns the number of rows on a screen of this height.
pub(crate) fn page(height: u16) -> usize {
    usize::from(height.saturating_sub(FRAME))
}

/// Draws the screen. `rows` must be filtered and sorted. Corrects the scroll offset if it is beyond
/// the last row.
pub(crate) fn draw(frame: &mut Frame, header: &Header, choice: &mut Choice, rows: &[Row]) {
    let areas = Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
        .split(frame.area());
    let width = usize::from(frame.area().width);
    frame.render_widget(Paragraph::new(vec![title(header, rows, width), status(header)]), areas[0]);
    let page = page(frame.area().height);
    choice.offset = choice.offset.min(rows.len().saturating_sub(page));
    let shown = rows.iter().skip(choice.offset).take(page);
    let columns = columns(frame.area().width);
    let widths: Vec<_> = columns.iter().map(|column| column.width).collect();
    // The table divides its width in the same manner.
    let room = Layout::horizontal(&widths).spacing(SPACING).split(areas[1]);
    let path_width = room.first().map_or(0, |area| usize::from(area.width));
    let titles = columns.iter().map(|column| column.title);
    let stale = header.silent.is_some();
    let table = Table::new(shown.map(|row| cells(row, &columns, path_width, header.interval, stale)), widths)
        .column_spacing(SPACING)
        .header(Cells::new(titles).style(Style::new().add_modifier(Modifier::REVERSED)));
    frame.render_widget(table, areas[1]);
    frame.render_widget(Paragraph::new(footer(choice)), areas[2]);
}

/// Shortens a text that is wider than `width` by omitting its middle, because the end of a path is
/// more specific.
fn shortened(text: &str, width: usize) -> String {
    let wide = |text: &str| Span::raw(text).width();
    if wide(text) <= width {
        return text.to_owned();
    }
    let letters: Vec<_> = text.chars().collect();
    let mut kept = letters.len().min(width);
    loop {
        kept = kept.saturating_sub(1);
        // The end gets the larger half.
        let (head, tail) = (kept / 2, letters.len() - kept.div_ceil(2));
        let shown: String = letters[..head].iter().chain(&['…']).chain(&letters[tail..]).collect();
        // Some characters are two columns wide.
        if kept == 0 || wide(&shown) <= width {
            return shown;
        }
    }
}

fn title(header: &Header, rows: &[Row], width: usize) -> Line<'static> {
    let held = rows.iter().filter(|row| row.state == State::Held).count();
    let waiting: usize = rows.iter().map(|row| row.waiting).sum();
    let rest = format!(" on {}: {held} held, {waiting} waiting", Escaped(header.hosts));
    let room = width.saturating_sub(Span::raw(&rest).width()).max(LEAST);
    let text = format!("{}{rest}", shortened(&Escaped(header.path).to_string(), room));
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

/// Formats the status line, which tells whether the rows are current.
fn status(header: &Header) -> Line<'static> {
    if let Some(silent) = header.silent {
        let text =
            format!("NO SERVER HAS ANSWERED FOR {} s: the data below is out of date", silent.as_secs());
        return Line::styled(text, Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
    }
    let more = match (header.full, header.pending) {
        (true, _) => ", limit reached, no more are read",
        (false, true) => ", searching for more",
        (false, false) => "",
    };
    let (directories, requests) = (header.directories, header.requests);
    Line::raw(format!("{directories} directories{more}; {requests:.0} requests/s"))
}

/// A column: its title, its width and the text for a row.
struct Column {
    title: &'static str,
    width: Constraint,
    text: fn(&Row) -> String,
}

/// Returns the columns that fit in this width.
fn columns(width: u16) -> Vec<Column> {
    let column = |title, width, text| Column { title, width, text };
    let mut columns = vec![
        column("PATH", Constraint::Fill(1), |row| Escaped(&row.path).to_string()),
        column("MODE", Constraint::Length(8), |row| match row.state {
            State::Held => row.mode.clone(),
            state => state.as_str().to_owned(),
        }),
        column("WAITING", Constraint::Length(7), |row| row.waiting.to_string()),
    ];
    if width >= MIDDLE {
        columns.push(column("GRANTS/S", Constraint::Length(8), |row| {
            row.rate.map(|rate| format!("{rate:.1}")).unwrap_or_default()
        }));
        columns.push(column("HELD FOR", Constraint::Length(11), |row| {
            row.age.map(Age::shown).unwrap_or_default()
        }));
    }
    columns.push(column("HOLDER", Constraint::Fill(1), Row::who));
    if width >= WIDE {
        columns.push(column("SESSION", Constraint::Length(18), Row::session));
    }
    columns
}

fn cells(
    row: &Row,
    columns: &[Column],
    path_width: usize,
    interval: Duration,
    stale: bool,
) -> Cells<'static> {
    // Mark rows that are out of date: with very many locks, each lock is read less often than the
    // screen is drawn.
    let late = row.seen > interval.saturating_mul(3) + Duration::from_secs(2);
    let mut texts: Vec<_> = columns.iter().map(|column| (column.text)(row)).collect();
    if let Some(path) = texts.first_mut() {
        *path = shortened(path, path_width);
    }
    let plain = Style::new();
    Cells::new(texts).style(if stale || late || row.state == State::Free {
        plain.add_modifier(Modifier::DIM)
    } else if row.waiting > 0 {
        plain.fg(Color::Yellow)
    } else {
        plain
    })
}

fn footer(choice: &Choice) -> Line<'static> {
    if choice.typing {
        return Line::raw(format!("filter: {}_  (Enter: keep, Esc: clear)", Escaped(&choice.filter)));
    }
    let order = if choice.reversed { " reversed" } else { "" };
    let mut told = format!("by {}{order}", choice.sort.as_str());
    if !choice.filter.is_empty() {
        told = format!("{told}, filter {:?}", Escaped(&choice.filter));
    }
    Line::styled(format!("{told} | {HELP}"), Style::new().add_modifier(Modifier::DIM))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::top::rows::rows;
    use crate::top::rows::tests::{NOW_MS, example};

    fn header(silent: Option<Duration>) -> Header<'static> {
        Header {
            path: "/locks",
            hosts: "zk1:2181,zk2:2181",
            silent,
            directories: 7,
            pending: false,
            full: false,
            requests: 6.2,
            interval: Duration::from_secs(1),
        }
    }

    fn drawn(width: u16, height: u16, silent: Option<Duration>, choice: &mut Choice) -> Vec<String> {
        let now = Instant::now();
        let rows = choice.of(rows(&example(now), now, NOW_MS));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &header(silent), choice, &rows)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    #[test]
    fn the_screen() {
        assert_eq!(
            drawn(120, 7, None, &mut Choice::default()),
            [
                "/locks on zk1:2181,zk2:2181: 2 held, 4 waiting",
                "7 directories; 6 requests/s",
                "PATH                            MODE     WAITING GRANTS/S HELD FOR    HOLDER                          SESSION",
                "/locks/gpu                      2 of 2   2       0.0      <=9s        nightly (db1, process 42)       0x10",
                "/locks/nightly                  mutex    2       1.5      <=1m 5s     nightly (db1, process 42)       0x10",
                "/locks/secret                   unknown  0                            not readable",
                "by waiting | q quit  / filter  sort: w p a g o  r reverse  f free locks  arrows",
            ]
        );
    }

    #[test]
    fn long_paths_are_shortened_in_the_middle() {
        assert_eq!(shortened("/locks/a", 8), "/locks/a");
        assert_eq!(shortened("/locks/nightly/report", 12), "/lock…report");
        for (width, shown) in [(0, "…"), (1, "…"), (2, "…b"), (3, "a…b")] {
            assert_eq!(shortened("a///b", width), shown);
        }
        // Characters that are two columns wide.
        assert_eq!(shortened("/日本語日本語", 7), "/…本語");
        let now = Instant::now();
        let mut rows = rows(&example(now), now, NOW_MS);
        rows[1].path = format!("/locks/{}/nightly", "tenant-".repeat(20));
        let mut terminal = Terminal::new(TestBackend::new(60, 7)).unwrap();
        let long = format!("/{}", "a".repeat(100));
        let header = Header { path: &long, ..header(None) };
        terminal.draw(|frame| draw(frame, &header, &mut Choice::default(), &rows)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..60).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        assert!(line(4).starts_with("/locks/") && line(4).contains("…"), "{}", line(4));
        assert!(line(4).contains("/nightly mutex"), "{}", line(4));
        assert!(line(0).contains("… on zk1") || line(0).contains("a on zk1"), "{}", line(0));
        assert!(line(0).contains("2 held, 4 waiting"), "{}", line(0));
    }

    #[test]
    fn a_silent_server_is_told_of() {
        let shown = drawn(100, 7, Some(Duration::from_secs(12)), &mut Choice::default());
        assert_eq!(shown[1], "NO SERVER HAS ANSWERED FOR 12 s: the data below is out of date");
        assert!(shown[3].starts_with("/locks/gpu"), "what was known is still there");
    }

    #[test]
    fn a_small_screen_shows_what_fits_and_scrolls() {
        let mut choice = Choice { offset: usize::MAX, ..Choice::default() };
        let shown = drawn(60, 5, None, &mut choice);
        assert!(shown[3].starts_with("/locks/sec"), "{shown:?}");
        assert_eq!(choice.offset, 2);
        for (width, height) in [(1, 1), (3, 2), (20, 3)] {
            drawn(width, height, None, &mut choice);
        }
    }
}
