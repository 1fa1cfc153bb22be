//! Draws the queue over time as SVG. Pure.

use std::fmt::Write as _;

use crate::demo::picture::{LaneState, Picture};

const WIDTH: usize = 1000;
/// Left edge of the lanes, and the margin on the other sides.
const LEFT: usize = 150;
const MARGIN: usize = 24;
const TOP: usize = 64;
const LANE: usize = 40;
const BAR: usize = 22;

/// The colors of light and dark pages.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:600}\
.pale{fill:#59636e}.page{fill:#fff}.line{stroke:#d1d9e0}.waits{fill:#d1d9e0}.killed{stroke:#d1242f;stroke-width:3}\
.orphaned{fill:#d1242f;opacity:.45}.l0{fill:#1a7f4e}.l1{fill:#0b7285}.l2{fill:#8f5d00}.l3{fill:#2a5db8}.l4{fill:#8540ae}\
.l5{fill:#5d6700}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.pale{fill:#9198a1}.page{fill:#0d1117}\
.line{stroke:#30363d}.waits{fill:#30363d}.killed{stroke:#ff6b61}.orphaned{fill:#ff6b61}.l0{fill:#4ac787}.l1{fill:#3fc1d6}\
.l2{fill:#e0ac3b}.l3{fill:#7fadff}.l4{fill:#cb92ee}.l5{fill:#bcc84f}}";

/// Returns the picture with a sentence below it.
pub(super) fn svg(picture: &Picture, result: &str) -> String {
    let (lanes, samples) = (picture.lanes(), picture.samples());
    let bottom = TOP + lanes.len() * LANE;
    let height = bottom + 64;
    let title = format!("One lock, {} processes, one of them killed while it holds the lock", lanes.len());
    let x = |sample: usize| LEFT + sample * (WIDTH - LEFT - MARGIN) / samples.len().max(1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"title what\">\n<title id=\"title\">{title}</title>\n<desc id=\"what\">{}</desc>\n\
         <style>{STYLE}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"36\">{title}</text>\n",
        escaped(result),
    );
    let mut add = |element: std::fmt::Arguments<'_>| writeln!(svg, "{element}").unwrap_or_default();
    let each_second = (1000 / picture.step().as_millis().max(1)) as usize;
    for (second, sample) in (0..samples.len()).step_by(each_second).enumerate() {
        let at = x(sample);
        add(format_args!("<path class=\"line\" d=\"M{at} {TOP}V{bottom}\"/>"));
        add(format_args!(
            "<text class=\"pale\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{second} s</text>",
            bottom + 18
        ));
    }
    for (lane, name) in lanes.iter().enumerate() {
        let y = TOP + lane * LANE + (LANE - BAR) / 2;
        add(format_args!("<text x=\"{MARGIN}\" y=\"{}\">{}</text>", y + 16, escaped(name)));
        let mut from = 0;
        for run in samples.chunk_by(|one, next| one[lane] == next[lane]) {
            let (left, right) = (x(from), x(from + run.len()));
            from += run.len();
            let (class, y, height) = match run[0][lane] {
                LaneState::Nothing => continue,
                LaneState::Waits => ("waits".to_owned(), y + BAR / 2 - 2, 4),
                LaneState::Holds => (format!("l{}", lane % 6), y, BAR),
                LaneState::Orphaned => ("orphaned".to_owned(), y, BAR),
            };
            let width = right - left;
            add(format_args!(
                "<rect class=\"{class}\" x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
            ));
        }
    }
    if let Some((lane, sample)) = picture.killed() {
        let (x, y) = (x(sample), TOP + lane * LANE + LANE / 2);
        add(format_args!("<path class=\"killed\" d=\"M{} {}l14 14m0-14l-14 14\"/>", x - 7, y - 7));
    }
    add(format_args!("<text class=\"pale\" x=\"{MARGIN}\" y=\"{}\">{}</text>", bottom + 44, escaped(result)));
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_hold_is_a_bar_in_its_lane() {
        use LaneState::{Holds, Nothing, Orphaned, Waits};
        let mut picture = Picture::new(vec!["a".into(), "<b>".into()], Duration::from_millis(500));
        for (a, b) in [(Holds, Waits), (Holds, Waits), (Waits, Holds)] {
            picture.add(vec![a, b]);
        }
        picture.kill(1);
        for (a, b) in [(Waits, Orphaned), (Holds, Nothing)] {
            picture.add(vec![a, b]);
        }
        let svg = svg(&picture, "3 grants & 0 nodes left.");
        let count = |part: &str| svg.matches(part).count();
        assert_eq!((count("class=\"l0\""), count("class=\"l1\"")), (2, 1));
        assert_eq!((count("class=\"waits\""), count("class=\"orphaned\"")), (2, 1));
        assert_eq!((count("class=\"killed\""), count(" s</text>")), (1, 3));
        assert!(svg.contains(">&lt;b&gt;</text>") && svg.contains("3 grants &amp; 0 nodes left."));
        // The first hold covers two of five samples.
        assert!(svg.contains("<rect class=\"l0\" x=\"150\" y=\"73\" width=\"330\" height=\"22\"/>"), "{svg}");
    }
}
