//! A DHCPv4 server whose behaviour a test can change from one message to the next, for
//! example to take back a lease. A real server cannot do this at a given moment.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode};
use dhcproto::{Decodable as _, Decoder, Encodable as _, Encoder};
use nix::sys::socket::{setsockopt, sockopt};

use crate::lab::Lab;

/// The current behaviour of the server.
#[derive(Debug, Clone)]
pub(super) struct Script {
    /// The server identifier that it sends.
    pub(super) server: Ipv4Addr,
    /// The address that it assigns.
    pub(super) address: Ipv4Addr,
    pub(super) times: [u32; 3],
    pub(super) mood: Mood,
    /// The messages that it has received.
    pub(super) received: Vec<MessageType>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    /// The server gives its address to every client.
    Generous,
    /// The server receives messages and does not answer.
    Silent,
    /// The server refuses clients that already have an address.
    Forgetful,
    /// The server refuses one request, then becomes `Generous`.
    Moody,
}

/// The running server. It ends when this is dropped.
pub(super) struct ScriptedDhcp {
    script: Arc<Mutex<Script>>,
    ended: Arc<AtomicBool>,
}

impl ScriptedDhcp {
    /// Serves `port0`, which has address 192.0.2.1.
    pub(super) fn start(lab: &Lab, times: [u32; 3], mood: Mood) -> ScriptedDhcp {
        let script = Arc::new(Mutex::new(Script {
            server: [192, 0, 2, 1].into(),
            address: [192, 0, 2, 100].into(),
            times,
            mood,
            received: Vec::new(),
        }));
        let ended = Arc::new(AtomicBool::new(false));
        let socket = lab.on_network(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 67)).unwrap();
            socket.set_broadcast(true).unwrap();
            setsockopt(&socket, sockopt::BindToDevice, &"port0".into()).unwrap();
            // The timeout lets the thread notice that the server was dropped.
            let pause = Some(Duration::from_millis(100));
            socket.set_read_timeout(pause).unwrap();
            socket
        });
        let (its, end) = (Arc::clone(&script), Arc::clone(&ended));
        std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                serve_one(&socket, &its);
            }
        });
        ScriptedDhcp { script, ended }
    }

    /// The behaviour, for tests to read and change.
    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// How often the server has received this message.
    pub(super) fn received(&self, kind: MessageType) -> usize {
        let script = self.script();
        script
            .received
            .iter()
            .filter(|received| **received == kind)
            .count()
    }
}

impl Drop for ScriptedDhcp {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn serve_one(socket: &UdpSocket, script: &Mutex<Script>) {
    let mut buffer = [0; 1500];
    let Ok((length, _)) = socket.recv_from(&mut buffer) else {
        return;
    };
    let question = Message::decode(&mut Decoder::new(&buffer[..length])).unwrap();
    let kind = question.opts().msg_type().unwrap();
    let mut script = script.lock().unwrap();
    script.received.push(kind);
    let refuses = match script.mood {
        Mood::Silent => return,
        Mood::Generous => false,
        Mood::Forgetful => !question.ciaddr().is_unspecified(),
        Mood::Moody => kind == MessageType::Request,
    };
    let answer = match kind {
        MessageType::Discover => MessageType::Offer,
        MessageType::Request if refuses => MessageType::Nak,
        MessageType::Request => MessageType::Ack,
        _ => return,
    };
    if refuses && script.mood == Mood::Moody {
        script.mood = Mood::Generous;
    }
    let message = encode(&question, answer, &script);
    // Sending fails while the link is down.
    let _ = socket.send_to(&message, (Ipv4Addr::BROADCAST, 68));
}

fn encode(question: &Message, kind: MessageType, script: &Script) -> Vec<u8> {
    let none = Ipv4Addr::UNSPECIFIED;
    let given = match kind {
        MessageType::Nak => none,
        _ => script.address,
    };
    let mac = question.chaddr().to_vec();
    let mut message = Message::new_with_id(question.xid(), none, given, none, none, &mac);
    message
        .set_opcode(Opcode::BootReply)
        .set_flags(Flags::default());
    let options = message.opts_mut();
    options.insert(DhcpOption::MessageType(kind));
    options.insert(DhcpOption::ServerIdentifier(script.server));
    if kind != MessageType::Nak {
        let [renew, rebind, lease] = script.times;
        options.insert(DhcpOption::Renewal(renew));
        options.insert(DhcpOption::Rebinding(rebind));
        options.insert(DhcpOption::AddressLeaseTime(lease));
        options.insert(DhcpOption::SubnetMask([255, 255, 255, 0].into()));
        options.insert(DhcpOption::Router(vec![[192, 0, 2, 1].into()]));
    }
    let mut bytes = Vec::new();
    message.encode(&mut Encoder::new(&mut bytes)).unwrap();
    bytes
}
