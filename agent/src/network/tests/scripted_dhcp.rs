//! A DHCPv4 server that does as it is told from one message to the next, for
//! what a real one cannot be made to do at a certain moment.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode};
use dhcproto::{Decodable as _, Decoder, Encodable as _, Encoder};
use nix::sys::socket::{setsockopt, sockopt};

use super::lab::Lab;

/// What it does from now on.
#[derive(Debug, Clone)]
pub(super) struct Script {
    /// Who it says it is.
    pub(super) server: Ipv4Addr,
    /// What it gives.
    pub(super) address: Ipv4Addr,
    /// T1, T2 and the length of the lease in seconds.
    pub(super) times: [u32; 3],
    /// How it answers.
    pub(super) mood: Mood,
    /// What it has heard.
    pub(super) heard: Vec<MessageType>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    /// Gives its address to all.
    Generous,
    /// Hears, and answers nothing.
    Silent,
    /// Refuses whoever has an address already.
    Forgetful,
    /// Refuses one request, and is generous then.
    Moody,
}

/// The server, until it is dropped.
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
            heard: Vec::new(),
        }));
        let ended = Arc::new(AtomicBool::new(false));
        let socket = lab.on_network(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 67)).unwrap();
            socket.set_broadcast(true).unwrap();
            setsockopt(&socket, sockopt::BindToDevice, &"port0".into()).unwrap();
            // To see that it has ended.
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

    /// What it does, to look at and to change.
    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// How often it has heard such a message.
    pub(super) fn heard(&self, kind: MessageType) -> usize {
        let script = self.script();
        script.heard.iter().filter(|heard| **heard == kind).count()
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
    script.heard.push(kind);
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
    // The link may be down.
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
