use landfall_http_client::fixtures::answer;
use landfall_http_client::{HttpOptions, NoAnswer};
use landfall_network::lab::{log_lines_during, nic};

use super::*;

#[test]
fn each_of_two_untrusted_servers_is_reported_once() {
    let mut known = Try::new(None, Vec::new());
    let untrusted = NoAnswer {
        untrusted_for_good: true,
        ..NoAnswer::because("x")
    };
    let repeated = ["https://a", "https://b", "https://a", "https://b"]
        .map(|url| known.is_already_reported(url, &untrusted));
    assert_eq!(repeated, [false, false, true, true]);
    assert!(!known.is_already_reported("https://a", &NoAnswer::because("x")));
}

#[test]
fn an_unexpected_answer_waits_for_nics_that_can_still_come() {
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    let limit = Duration::from_secs(1);
    let grace = |urls: usize, over: &[u32], expected, status, other: NicState| {
        let urls = vec!["http://192.0.2.1:6385".to_owned(); urls];
        let mut search = Search::new(&client, &urls, limit, expected);
        for index in over {
            let reached = Reached {
                url: urls[0].clone(),
                answer: answer(status, ""),
                over: Some(*index),
            };
            // Only the download of a file follows redirects.
            let is_followed = expected == Expected::File && status == 302;
            let found = (!is_followed).then(String::new);
            search.others.keep(Some(*index), Other { reached, found });
        }
        search.grace(&NetworkState {
            nics: vec![nic(1, false), other],
            ..NetworkState::default()
        })
    };
    let unplugged = NicState {
        carrier: false,
        ..nic(2, false)
    };
    let unplanned = NicState {
        shall_have_address: false,
        ..nic(2, false)
    };
    let negotiating = NicState {
        awaits_carrier: true,
        ..unplugged.clone()
    };
    for (urls, status, other, expected) in [
        (1, 404, unplugged.clone(), GRACE_ALONE),
        (1, 404, unplanned, GRACE_ALONE),
        (1, 404, negotiating, GRACE),
        (1, 404, nic(2, false), GRACE),
        (1, 503, unplugged.clone(), GRACE),
        (1, 302, unplugged.clone(), GRACE_ALONE),
        (2, 404, unplugged.clone(), GRACE),
    ] {
        let case = format!("{urls} {status} {other:?}");
        let found = grace(urls, &[1], Expected::Ironic, status, other);
        assert_eq!(found, expected, "{case}");
    }
    // An answer came over each of the two NICs, so no NIC can bring a better one.
    let both = |expected, status| grace(1, &[1, 2], expected, status, nic(2, false));
    assert_eq!(both(Expected::Ironic, 404), GRACE_ALONE);
    assert_eq!(both(Expected::Ironic, 502), GRACE);
    assert_eq!(both(Expected::File, 404), GRACE_ALONE);
    // After a redirect the search waits only for a NIC that may still answer, and only
    // for a short time.
    assert_eq!(both(Expected::File, 302), Duration::ZERO);
    let redirect = |urls, other| grace(urls, &[1], Expected::File, 302, other);
    assert_eq!(redirect(1, unplugged.clone()), Duration::ZERO);
    assert_eq!(redirect(2, unplugged), Duration::ZERO);
    assert_eq!(redirect(1, nic(2, false)), GRACE_REDIRECT);
}

/// The text contains no waiting time, because with one URL there is no other server to
/// wait for.
#[test]
fn the_console_says_if_there_is_only_one_server() {
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    for (count, expected) in [
        (1, "status 404, and there is no other server to try: using"),
        (2, "status 404, and no server gave a better answer: using"),
    ] {
        // No server listens at this URL. The only answer is the one of an earlier
        // attempt, which the test adds below.
        let urls = vec!["http://127.0.0.1:1".to_owned(); count];
        let mut search = Search::new(&client, &urls, Duration::from_secs(1), Expected::File);
        let lines = log_lines_during(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let reached = Reached {
                    url: urls[0].clone(),
                    answer: answer(404, ""),
                    over: Some(1),
                };
                let found = Some("status 404".to_owned());
                search.others.keep(Some(1), Other { reached, found });
                let (_, mut network) = watch::channel(NetworkState::default());
                let (reach, _) = watch::channel(Reach::default());
                let news = search.news(&mut network, &reach).await;
                assert!(matches!(news, News::Reached(_)), "{news:?}");
            });
        });
        let is_logged = lines.iter().any(|line| line.contains(expected));
        assert!(is_logged, "{expected}: {lines:#?}");
    }
}
