//! Tests on a pseudoterminal.

use std::io::Read;
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::time::Duration;

use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, tcgetattr};

use super::*;

fn echoes(terminal: &File) -> bool {
    tcgetattr(terminal).expect("a terminal").local_flags.contains(LocalFlags::ECHO)
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
