use super::*;

/// Longest pause with the default urgency.
const LONGEST: Duration = Duration::from_secs(1);

fn server(port: u16) -> Server {
    ("a".to_owned(), port)
}

/// Returns the number of attempts in each second, if every attempt takes the time `lasts`. The
/// client tries one server after the other.
async fn attempts(servers: u16, lasts: Duration, seconds: usize) -> Vec<usize> {
    let throttle = ConnectThrottle::new(|| 0.0);
    let start = Instant::now();
    let mut counts = vec![0; seconds];
    for port in (0..servers).cycle().take(1000) {
        let server = ("a".to_owned(), port);
        let began = throttle.wait_until_allowed(&server).await;
        let second = usize::try_from(began.duration_since(start).as_secs()).unwrap();
        let Some(count) = counts.get_mut(second) else { break };
        *count += 1;
        tokio::time::sleep(lasts).await;
        throttle.ended(&server, began, AttemptEnd::Replied);
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn a_server_that_turns_us_away_gets_few_attempts_after_the_first_second() {
    for servers in [1, 2, 3, 5, 9] {
        for lasts in [0, 1, 30, 700] {
            let counts = attempts(servers, Duration::from_millis(lasts), 12).await;
            // With the shortest pauses that jitter produces.
            assert!(counts[1..].iter().all(|count| *count <= 5), "{servers} {lasts} {counts:?}");
            let lately: usize = counts[9..].iter().sum();
            assert!(lately > 0, "it is tried for ever: {servers} {lasts} {counts:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_lasted_costs_no_pause() {
    let throttle = ConnectThrottle::new(|| 1.0);
    let server = ("a".to_owned(), 1);
    let waited = async || {
        let start = Instant::now();
        throttle.wait_until_allowed(&server).await;
        start.elapsed()
    };
    for _ in 0..10 {
        throttle.ended(&server, Instant::now(), AttemptEnd::Replied);
    }
    assert!(waited().await >= LONGEST);
    let began = Instant::now();
    tokio::time::sleep(LASTING).await;
    throttle.ended(&server, began, AttemptEnd::Replied);
    assert_eq!(waited().await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn another_server_does_not_wait() {
    let throttle = ConnectThrottle::new(|| 1.0);
    throttle.ended(&("a".to_owned(), 1), Instant::now(), AttemptEnd::Replied);
    let start = Instant::now();
    throttle.wait_until_allowed(&("a".to_owned(), 2)).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_forgotten_after_a_while() {
    let throttle = ConnectThrottle::new(|| 1.0);
    let server = ("a".to_owned(), 1);
    for _ in 0..10 {
        throttle.ended(&server, Instant::now(), AttemptEnd::Replied);
    }
    tokio::time::sleep(LONGEST + FORGOTTEN + FIRST).await;
    let start = Instant::now();
    throttle.ended(&server, start, AttemptEnd::Replied);
    throttle.wait_until_allowed(&server).await;
    assert!(start.elapsed() <= 2 * FIRST);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_waiting_has_not_shortened_the_pause() {
    let throttle = ConnectThrottle::new(|| 1.0);
    let server = ("a".to_owned(), 1);
    for _ in 0..10 {
        throttle.ended(&server, Instant::now(), AttemptEnd::Replied);
    }
    let start = Instant::now();
    while tokio::time::timeout(LONGEST / 4, throttle.wait_until_allowed(&server)).await.is_err() {}
    assert!((LONGEST..LONGEST * 2).contains(&start.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn in_a_hurry_the_pauses_begin_anew() {
    let throttle = ConnectThrottle::new(|| 1.0);
    let server = ("a".to_owned(), 1);
    for _ in 0..10 {
        throttle.ended(&server, Instant::now(), AttemptEnd::Replied);
    }
    let start = Instant::now();
    let hurry = async {
        tokio::task::yield_now().await;
        throttle.hurry();
    };
    tokio::join!(throttle.wait_until_allowed(&server), hurry);
    assert_eq!(start.elapsed(), Duration::ZERO);
    throttle.ended(&server, start, AttemptEnd::Replied);
    throttle.wait_until_allowed(&server).await;
    assert!((FIRST / 2..FIRST * 3).contains(&start.elapsed()), "{:?}", start.elapsed());
}

/// Lets every server reject each attempt after `lasts`. Returns the longest time between two
/// attempts to connect to one server, and the maximum number of attempts in one second. Ignores the
/// first twelve seconds.
async fn pauses(urgency: Urgency, random: fn() -> f64, servers: u16, lasts: Duration) -> (Duration, u32) {
    let throttle = ConnectThrottle::new(random);
    throttle.set_urgency(urgency);
    let start = Instant::now();
    let (mut last, mut longest, mut counts) = (BTreeMap::new(), Duration::ZERO, BTreeMap::<u64, u32>::new());
    for port in (0..servers).cycle().take(400) {
        let began = throttle.wait_until_allowed(&server(port)).await;
        let before = last.insert(port, began);
        if began > start + Duration::from_secs(12) {
            longest = longest.max(began - before.unwrap());
            *counts.entry((began - start).as_secs()).or_default() += 1;
        }
        tokio::time::sleep(lasts).await;
        throttle.ended(&server(port), began, AttemptEnd::Replied);
    }
    (longest, counts.into_values().max().unwrap())
}

#[tokio::test(start_paused = true)]
async fn each_server_has_its_turn_in_time_while_a_session_is_at_stake_and_there_is_no_storm() {
    for (seconds, bound) in [(4, 500), (10, 1_250), (40, 1_500)] {
        for servers in [1, 3, 5] {
            for lasts in [0, 2, 40] {
                for random in [|| 0.0, || 0.5, || 1.0] {
                    let urgency = Urgency::Session(Duration::from_secs(seconds));
                    let lasts = Duration::from_millis(lasts);
                    let (longest, a_second) = pauses(urgency, random, servers, lasts).await;
                    assert!(longest <= Duration::from_millis(bound), "{urgency:?} {servers}: {longest:?}");
                    assert!(a_second <= 20, "{urgency:?} {servers}: {a_second} attempts a second");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_where_nobody_waits() {
    let (longest, a_second) = pauses(Urgency::Idle, || 1.0, 3, Duration::ZERO).await;
    assert!(longest > Duration::from_secs(4) && a_second <= 4, "{longest:?} {a_second}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_too_long_for_what_is_at_stake_ends_sooner() {
    let throttle = ConnectThrottle::new(|| 1.0);
    throttle.set_urgency(Urgency::Idle);
    for _ in 0..12 {
        throttle.ended(&server(1), Instant::now(), AttemptEnd::Replied);
    }
    let start = Instant::now();
    let server = server(1);
    let urgent = async {
        tokio::task::yield_now().await;
        throttle.set_urgency(Urgency::Session(Duration::from_secs(4)));
    };
    tokio::join!(throttle.wait_until_allowed(&server), urgent);
    assert!(start.elapsed() <= Duration::from_millis(500), "{:?}", start.elapsed());
}

#[test]
fn pauses_differ_in_proportion_to_their_length() {
    let (short, long) = (Duration::from_millis(100), Duration::from_secs(1));
    for pause in [short, long] {
        assert_eq!(ConnectThrottle::new(|| 0.0).jittered(pause), pause / 2);
        assert_eq!(ConnectThrottle::new(|| 1.0).jittered(pause), pause);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up_after_a_second_only_if_there_is_another_and_later_each_time() {
    let (throttle, one, second) = (ConnectThrottle::new(|| 0.0), server(1), Duration::from_secs(1));
    throttle.servers(1);
    assert_eq!(throttle.limit(&one), None);
    throttle.servers(3);
    for limit in [1, 2, 4] {
        assert_eq!(throttle.limit(&one), Some(second * limit));
        throttle.ended(&one, Instant::now(), AttemptEnd::NotAnswered);
    }
    assert_eq!(throttle.limit(&server(2)), Some(second));
    throttle.ended(&one, Instant::now(), AttemptEnd::Replied);
    assert_eq!(throttle.limit(&one), Some(second));
    // If no connection was made, packets are probably dropped, so a longer limit would not help.
    throttle.set_urgency(Urgency::Session(second * 10));
    throttle.ended(&one, Instant::now(), AttemptEnd::NotConnected);
    assert_eq!(throttle.limit(&one), Some(second));
}

#[tokio::test(start_paused = true)]
async fn the_server_that_fell_silent_is_passed_over_once_if_there_is_another() {
    for (servers, passed) in [(1, false), (2, true)] {
        let throttle = ConnectThrottle::new(|| 0.0);
        throttle.servers(servers);
        throttle.ended(&server(1), Instant::now(), AttemptEnd::FellSilent);
        assert!(!throttle.passes_over(&server(2)));
        assert_eq!(throttle.passes_over(&server(1)), passed);
        assert!(!throttle.passes_over(&server(1)));
    }
}
