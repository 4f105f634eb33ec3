use super::*;
use crate::dhcp6::message::tests::{MAC, SERVER, answer_bytes, denied, granted};
use dhcproto::v6::{DhcpOption, Message, MessageType, OptionCode};
use dhcproto::{Decodable as _, Decoder};
use proptest::prelude::*;

const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const OURS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77);
const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x78);
/// The times that the server grants: T1, T2, preferred and valid lifetime.
const TIMES: [u32; 4] = [100, 160, 200, 300];

/// A machine with a simulated clock.
struct World {
    machine: Machine,
    now: f64,
    sent: Vec<Message>,
    events: Vec<Event>,
}

impl World {
    /// Without randomness: delays of half a second, and waits as in the RFC's
    /// tables.
    fn new(want: Want) -> World {
        let timeout = Duration::from_secs(90);
        let identity = Identity::of(MAC);
        World {
            machine: Machine::new(identity, None, want, timeout, Duration::ZERO, || 0.5),
            now: 0.0,
            sent: Vec::new(),
            events: Vec::new(),
        }
    }

    fn feed(&mut self, input: Input<'_>) {
        for output in self.machine.on(Duration::from_secs_f64(self.now), input) {
            match output {
                Output::Send(bytes) => {
                    self.sent
                        .push(Message::decode(&mut Decoder::new(&bytes)).unwrap());
                }
                Output::Report(event) => self.events.push(event),
            }
        }
    }

    /// Lets the simulated clock run up to this moment, and handles everything that
    /// happens until then.
    fn until(&mut self, end: f64) -> &mut World {
        while let Some(at) = self.machine.wakes().map(|at| at.as_secs_f64())
            && at <= end
        {
            self.now = self.now.max(at);
            self.feed(Input::Time);
        }
        self.now = end;
        self
    }

    /// The types of the messages sent since the last call. The last message stays,
    /// so the next call returns it again.
    fn kinds(&mut self) -> Vec<MessageType> {
        let kinds = self.sent.iter().map(Message::msg_type).collect();
        if let Some(last) = self.sent.pop() {
            self.sent = vec![last];
        }
        kinds
    }

    fn answer(&mut self, kind: MessageType, options: Vec<DhcpOption>) -> &mut World {
        let transaction = self.sent.last().unwrap().xid();
        let bytes = answer_bytes(kind, transaction, options);
        self.feed(Input::Payload(&bytes, FROM));
        self
    }

    fn bound(&mut self) -> Lease {
        match self.events.pop() {
            Some(Event::Bound(lease)) => *lease,
            other => panic!("expected a lease, found {other:?}"),
        }
    }

    /// A machine that has a lease, at second 1.
    fn with_lease() -> World {
        World::with_its_lease().0
    }

    fn with_its_lease() -> (World, Lease) {
        let mut world = World::new(Want::Address(None));
        world.until(1.0);
        world.answer(
            MessageType::Reply,
            vec![DhcpOption::RapidCommit, granted(OURS, TIMES)],
        );
        let lease = world.bound();
        assert_eq!(lease.address.unwrap().address, OURS);
        assert_eq!(world.kinds(), [MessageType::Solicit]);
        world.sent.clear();
        (world, lease)
    }
}

#[test]
fn four_messages_lead_to_a_lease() {
    let mut world = World::new(Want::Address(None));
    world.until(0.4);
    assert!(world.sent.is_empty(), "the first message is delayed");
    world.until(1.0);
    world.answer(MessageType::Advertise, vec![granted(OURS, TIMES)]);
    assert_eq!(
        world.kinds(),
        [MessageType::Solicit],
        "others may be better"
    );
    world.until(1.5);
    assert_eq!(world.kinds(), [MessageType::Solicit, MessageType::Request]);
    let server = world.sent[0].opts().get(OptionCode::ServerId);
    assert_eq!(server, Some(&DhcpOption::ServerId(SERVER.to_vec())));
    world.answer(MessageType::Reply, vec![granted(OURS, TIMES)]);
    assert_eq!(world.bound().from, FROM);
    assert_eq!(world.machine.wakes(), Some(Duration::from_secs_f64(101.5)));
}

#[test]
fn a_server_with_full_preference_is_not_compared_with_others() {
    let mut world = World::new(Want::Address(None));
    world.until(1.0).answer(
        MessageType::Advertise,
        vec![DhcpOption::Preference(255), granted(OURS, TIMES)],
    );
    assert_eq!(world.kinds(), [MessageType::Solicit, MessageType::Request]);
}

#[test]
fn the_server_with_more_preference_is_asked() {
    let mut world = World::new(Want::Address(None));
    world.until(1.0);
    for (preference, address) in [(1, OTHER), (9, OURS), (5, OTHER)] {
        world.answer(
            MessageType::Advertise,
            vec![DhcpOption::Preference(preference), granted(address, TIMES)],
        );
    }
    world.until(2.0);
    let Some(DhcpOption::IANA(ia)) = world.sent[1].opts().get(OptionCode::IANA) else {
        panic!("expected an association");
    };
    let address = ia.opts.iter().next();
    assert!(matches!(address, Some(DhcpOption::IAAddr(a)) if a.addr == OURS));
}

#[test]
fn silence_is_reported_once() {
    let mut world = World::new(Want::Address(None));
    world.until(600.0);
    // Messages are sent at 0.5, 1.5, 3.5, 7.5 s, then every 8 s for two minutes,
    // then at 127.5, 143.5, 175.5 s, and then every 64 s.
    let sent = world.kinds().len();
    assert_eq!(sent, 4 + 14 + 3 + 6);
    assert_eq!(world.events, [Event::Silent(Duration::from_secs(30))]);
    // An answer from a late server is accepted. The lease begins with the client's last
    // message, which was sent at 559.5 s.
    world.answer(
        MessageType::Reply,
        vec![DhcpOption::RapidCommit, granted(OURS, TIMES)],
    );
    let lease = world.bound();
    assert!(lease.address.unwrap().valid.unwrap() > Duration::from_secs(200));
}

#[test]
fn a_reply_without_rapid_commit_is_no_answer_to_a_solicit() {
    let mut world = World::new(Want::Address(None));
    world.until(1.0);
    world.answer(MessageType::Reply, vec![granted(OURS, TIMES)]);
    assert_eq!(world.events, []);
}

#[test]
fn an_empty_pool_is_reported_once_and_retried() {
    let mut world = World::new(Want::Address(None));
    world.until(1.0);
    for _ in 0..2 {
        world.answer(
            MessageType::Advertise,
            vec![denied(Status::NO_ADDRESS, "address range exhausted")],
        );
    }
    world.until(100.0);
    assert_eq!(
        world.events,
        [Event::Refused("address range exhausted".to_owned())]
    );
    assert!(world.kinds().len() > 5);
}

#[test]
fn a_server_that_offers_and_refuses_cannot_make_us_ask_without_pause() {
    let mut world = World::new(Want::Address(None));
    for second in 1..600 {
        world.until(f64::from(second));
        match world.sent.last().map(Message::msg_type) {
            Some(MessageType::Solicit) => world.answer(
                MessageType::Advertise,
                vec![DhcpOption::Preference(255), granted(OURS, TIMES)],
            ),
            Some(MessageType::Request) => world.answer(
                MessageType::Reply,
                vec![denied(Status::NO_ADDRESS, "changed my mind")],
            ),
            _ => &mut world,
        };
    }
    let sent = world.sent.len();
    assert!((40..150).contains(&sent), "{sent} messages in 600 s");
}

#[test]
fn a_lease_is_renewed_rebound_and_lost() {
    let mut world = World::with_lease();
    // The client asked at 0.5: T1 100.5, T2 160.5, end 300.5.
    world.until(100.0);
    assert_eq!(world.kinds(), []);
    world.until(100.5);
    assert_eq!(world.kinds(), [MessageType::Renew]);
    world.answer(MessageType::Reply, vec![granted(OURS, TIMES)]);
    world.bound();
    world.sent.clear();

    // From 100.5: T1 200.5, T2 260.5, end 400.5. No answers from here on.
    world.until(260.0);
    assert_eq!(world.kinds(), [MessageType::Renew; 3]);
    world.sent.clear();
    world.until(399.0);
    let rebind = world.kinds();
    assert!(rebind.len() > 2 && rebind.iter().all(|kind| *kind == MessageType::Rebind));
    assert!(world.sent[0].opts().get(OptionCode::ServerId).is_none());
    assert_eq!(world.events, []);
    world.sent.clear();
    world.until(401.0);
    assert_eq!(world.events, [Event::Lost]);
    assert_eq!(world.kinds(), [MessageType::Solicit]);
}

#[test]
fn answers_to_a_renewal() {
    let elsewhere = granted(OTHER, TIMES);
    let ended = granted(OURS, [0, 0, 0, 0]);
    for (what, options, expected, next) in [
        ("another address", vec![elsewhere], "bound", vec![]),
        ("the end", vec![ended], "lost", vec![MessageType::Solicit]),
        (
            "no address any more",
            vec![denied(Status::NO_ADDRESS, "")],
            "lost",
            vec![MessageType::Solicit],
        ),
        (
            "it does not know us",
            vec![denied(Status::NO_BINDING, "")],
            "nothing",
            vec![MessageType::Request],
        ),
        (
            "nothing about it",
            vec![],
            "nothing",
            vec![MessageType::Renew],
        ),
    ] {
        let mut world = World::with_lease();
        world.until(100.5).sent.drain(..0);
        world.answer(MessageType::Reply, options);
        let found = match world.events.first() {
            Some(Event::Bound(_)) => "bound",
            Some(Event::Lost) => "lost",
            Some(other) => panic!("{what}: {other:?}"),
            None => "nothing",
        };
        assert_eq!(found, expected, "{what}");
        world.until(120.0);
        let sent: Vec<_> = world.kinds().into_iter().skip(1).collect();
        assert_eq!(sent.first(), next.first(), "{what}");
    }
}

#[test]
fn a_duplicate_is_declined_and_another_address_asked_for() {
    let mut world = World::with_lease();
    world.until(5.0).feed(Input::Duplicate);
    assert_eq!(world.kinds(), [MessageType::Decline]);
    world.answer(MessageType::Reply, vec![]);
    world.until(14.9);
    assert_eq!(world.kinds(), [MessageType::Decline], "after a pause");
    world.until(21.0);
    assert_eq!(world.kinds().last(), Some(&MessageType::Solicit));

    let mut unanswered = World::with_lease();
    unanswered.until(5.0).feed(Input::Duplicate);
    unanswered.until(60.0);
    let kinds = unanswered.kinds();
    let declines = kinds.iter().filter(|kind| **kind == MessageType::Decline);
    assert_eq!(declines.count(), 4);
    assert!(kinds.contains(&MessageType::Solicit));
}

#[test]
fn a_lease_is_confirmed_after_the_cable_was_out() {
    let (_, lease) = World::with_its_lease();
    let want = || Want::Address(Some(Box::new(lease.clone())));
    let begun = || {
        let mut world = World::new(want());
        world.until(1.0);
        assert_eq!(world.kinds(), [MessageType::Confirm]);
        world
    };
    let mut same = begun();
    same.answer(MessageType::Reply, vec![]);
    assert_eq!(same.bound().address.unwrap().address, OURS);

    let mut moved = begun();
    let status = dhcproto::v6::StatusCode {
        status: Status::NOT_ON_LINK.into(),
        msg: String::new(),
    };
    moved.answer(MessageType::Reply, vec![DhcpOption::StatusCode(status)]);
    assert_eq!(moved.events, [Event::Lost]);
    assert_eq!(moved.kinds().last(), Some(&MessageType::Solicit));

    let mut silent = begun();
    silent.until(12.0);
    assert_eq!(silent.bound().address.unwrap().address, OURS);
}

#[test]
fn information_alone_is_refreshed() {
    let mut world = World::new(Want::Information);
    world.until(1.0);
    let dns = DhcpOption::DomainNameServers(vec![OTHER]);
    world.answer(MessageType::Reply, vec![dns]);
    let lease = world.bound();
    assert_eq!((lease.address, lease.dns), (None, vec![OTHER]));
    world.until(86_000.0);
    assert_eq!(world.kinds(), [MessageType::InformationRequest]);
    world.until(86_401.5);
    assert_eq!(world.kinds(), [MessageType::InformationRequest; 2]);
}

#[test]
fn a_server_may_ask_for_longer_pauses() {
    let mut world = World::new(Want::Address(None));
    world.until(1.0);
    let transaction = world.sent[0].xid();
    let mut bytes = answer_bytes(
        MessageType::Advertise,
        transaction,
        vec![denied(Status::NO_ADDRESS, "")],
    );
    bytes.extend([0, 82, 0, 4, 0, 0, 2, 88]);
    world.feed(Input::Payload(&bytes, FROM));
    assert_eq!(world.machine.longest_search, Duration::from_secs(600));
}

proptest! {
    /// For any order of inputs: no panic, no flood of messages, and the machine
    /// never stops.
    #[test]
    fn nothing_stops_or_hurries_the_machine(
        information: bool,
        events in proptest::collection::vec((0_u8..8, 0.0..40.0_f64), 1..60),
    ) {
        let want = if information { Want::Information } else { Want::Address(None) };
        let mut world = World::new(want);
        for (event, pause) in &events {
            world.until(world.now + pause);
            if world.sent.is_empty() {
                continue;
            }
            let reply = MessageType::Reply;
            match event {
                0 => world.answer(reply, vec![]),
                1 => world.answer(reply, vec![granted(OURS, TIMES)]),
                2 => world.answer(reply, vec![DhcpOption::RapidCommit, granted(OTHER, [0; 4])]),
                3 => world.answer(reply, vec![DhcpOption::RapidCommit, granted(OURS, TIMES)]),
                4 => world.answer(reply, vec![denied(Status::NO_BINDING, "")]),
                5 => world.answer(MessageType::Advertise, vec![granted(OURS, [10, 10, 10, 10])]),
                6 => {
                    world.feed(Input::Duplicate);
                    &mut world
                }
                _ => world.answer(reply, vec![denied(Status::NO_ADDRESS, "")]),
            };
            prop_assert!(world.machine.wakes().is_some());
        }
        // The limit is one message per second, two for each event, and ten more.
        let most = world.now as usize + 2 * events.len() + 10;
        prop_assert!(world.sent.len() <= most, "{} in {}", world.sent.len(), world.now);
    }
}
