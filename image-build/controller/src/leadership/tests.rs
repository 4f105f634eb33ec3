use super::*;

const OURS: &str = "pod-a";
const OTHER: &str = "pod-b";

fn settings() -> LeaseSettings {
    LeaseSettings::new("metal3", "landfall-controller", OURS)
}

fn lease(holder: &str, renewed: i64) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
        ..LeaseSpec::default()
    }
}

/// Each row continues the previous one: the time in seconds, the lease that is read,
/// and the expected judgement.
#[test]
fn a_lease_expires_when_it_does_not_change() {
    use Judgement::{Renew, TakeOver, Wait};
    let begin = Instant::now();
    let mut seen = None;
    for (second, lease, expected) in [
        (0, lease("", 0), TakeOver),
        (0, lease(OURS, 0), Renew),
        // The clock of the other copy may show any time.
        (0, lease(OTHER, 4_000_000_000), Wait),
        (14, lease(OTHER, 4_000_000_000), Wait),
        (15, lease(OTHER, 4_000_000_000), TakeOver),
        (16, lease(OTHER, 1), Wait),
        (30, lease(OTHER, 1), Wait),
        (31, lease(OTHER, 2), Wait),
        (45, lease(OTHER, 2), Wait),
        (46, lease(OTHER, 2), TakeOver),
    ] {
        let now = begin + Duration::from_secs(second);
        let found = judge(&lease, &mut seen, &settings(), now);
        assert_eq!(found, expected, "{second} s");
    }
}

#[test]
fn a_lease_without_a_duration_has_the_usual_one() {
    let begin = Instant::now();
    let mut seen = None;
    for (duration, second, expected) in [
        (None, 14, Judgement::Wait),
        (None, 15, Judgement::TakeOver),
        (Some(-1), 14, Judgement::Wait),
        (Some(0), 15, Judgement::TakeOver),
    ] {
        let lease = LeaseSpec {
            lease_duration_seconds: duration,
            ..lease(OTHER, 0)
        };
        seen = seen.filter(|(old, _)| *old == lease);
        let _ = judge(&lease, &mut seen, &settings(), begin);
        let now = begin + Duration::from_secs(second);
        assert_eq!(judge(&lease, &mut seen, &settings(), now), expected);
    }
}

#[test]
fn transitions_are_counted() {
    let count = |old| taken(old, &settings()).lease_transitions;
    assert_eq!(count(None), Some(0));
    let old = LeaseSpec {
        lease_transitions: Some(7),
        ..lease(OTHER, 0)
    };
    assert_eq!(count(Some(&old)), Some(8));
}

/// A copy that was stopped for a minute must not write when it continues. If it gets the
/// lease again, a new term begins. Then every resource needs a run, because the runs
/// between the terms have written nothing.
#[tokio::test(start_paused = true)]
async fn the_right_to_write_ends_without_a_renewal() {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(config).unwrap();
    let (candidate, mut leadership) = Candidate::new(client, settings());
    assert!(!leadership.is_held());
    let mut terms = Vec::new();
    for (pause, held, expected) in [
        (0, Some(true), true),
        (9, None, true),
        (0, Some(true), true),
        (10, None, false),
        (0, None, false),
        (0, Some(true), true),
        (11, Some(true), true),
        (0, Some(false), false),
    ] {
        tokio::time::advance(Duration::from_secs(pause)).await;
        if pause >= 10 {
            assert!(!leadership.is_held(), "before the next attempt");
        }
        candidate.record(held, Instant::now());
        assert_eq!(leadership.is_held(), expected, "after {pause} s: {held:?}");
        terms.push(candidate.term.borrow().number);
    }
    assert_eq!(terms, [1, 1, 1, 1, 1, 2, 3, 3]);
    assert!(leadership.begins().await);
    let again = timeout(Duration::from_secs(1), leadership.begins());
    assert!(again.await.is_err(), "one event for each term");
}
