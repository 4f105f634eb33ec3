//! Implements the login phase (RFC 7143, 6.3) as a state machine without sockets, which
//! builds requests and evaluates responses. [`crate::connect`] transfers them over a
//! connection of this process, [`crate::kernel`] over a connection that the kernel has.

mod refusal;

use std::net::IpAddr;

use landfall_boot_params::argument_value::Secret;

use crate::agreed::{self, Agreed, Disagreement};
use crate::boot_table::Chap;
use crate::chap::{self, Algorithm};
use crate::pdu::{LoginRequest, LoginResponse, MOST_DATA, PduFault, Stage};
use crate::text_keys::{self, TextFault, value};
pub use refusal::{Cause, Refusal};

/// The maximum number of responses in one login. The longest login, with mutual CHAP, has
/// five.
const MOST_ROUNDS: usize = 24;
/// The maximum size in bytes of a text that a target continues over several responses.
const MOST_TEXT: usize = 64 << 10;

/// The initiator and the target of a login, and how they authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    pub initiator: String,
    pub target: String,
    pub isid: [u8; 6],
    pub chap: Option<Chap>,
}

/// What the caller does after a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    Send(LoginRequest),
    Done(LoggedIn),
    /// The target is at another address.
    Elsewhere(Redirect),
}

/// The session after the login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    pub agreed: Agreed,
    /// The status number (StatSN) that the target uses next.
    pub expected_status_number: u32,
}

/// `TargetAddress` of a redirection (RFC 7143, 13.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub address: IpAddr,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginFault {
    #[error("{0}")]
    Refused(Refusal),
    #[error("expected one of CHAP and None as authentication, found {0:?}")]
    Method(String),
    #[error("the target asks for CHAP, but the firmware has no secret for it")]
    NoSecret,
    #[error("the target does not prove its identity, although the firmware has a secret for that")]
    NotProven,
    #[error("the target's answer to our challenge is wrong: it has another secret or another name")]
    WrongProof,
    #[error("expected {0}, found {1:?}")]
    Chap(&'static str, String),
    #[error("{0}")]
    Pdu(#[from] PduFault),
    #[error("{0}")]
    Text(#[from] TextFault),
    #[error("{0}")]
    Disagreement(#[from] Disagreement),
    #[error("expected an address in the redirection, found {0:?}")]
    Redirection(String),
    #[error("expected the login to be in the {0} stage")]
    Stage(&'static str),
    #[error("expected the end of the login after {MOST_ROUNDS} responses")]
    Endless,
    #[error("expected at most {MOST_TEXT} bytes of text in one answer")]
    TooMuchText,
    #[error("expected version 0 of the protocol, found {0}")]
    Version(u8),
}

impl LoginFault {
    /// The kind of fault, on which the remedy depends.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Refused(refusal) => refusal.cause(),
            Self::NoSecret | Self::Method(_) => Cause::Authentication,
            Self::NotProven | Self::WrongProof => Cause::Proof,
            _ => Cause::Protocol,
        }
    }
}

/// The state of one login.
#[derive(Debug)]
pub struct Login {
    wish: Wish,
    state: State,
    agreed: Agreed,
    text: Vec<u8>,
    rounds: usize,
    expected_status_number: u32,
}

#[derive(Debug)]
enum State {
    /// The method was offered.
    Method,
    /// `CHAP_A` was offered.
    Algorithm,
    /// Our CHAP response was sent, with our challenge if the target must authenticate
    /// itself.
    Proof(Option<Challenge>),
    /// The security negotiation is over, but the target has not left the security stage.
    Leaving,
    Operational,
}

/// The challenge that the target must answer.
#[derive(Debug)]
struct Challenge {
    algorithm: Algorithm,
    identifier: u8,
    bytes: [u8; 32],
}

impl Login {
    pub fn new(wish: Wish) -> Self {
        Self {
            wish,
            state: State::Method,
            agreed: Agreed::default(),
            text: Vec::new(),
            rounds: 0,
            expected_status_number: 0,
        }
    }

    /// The first request.
    pub fn first(&self) -> LoginRequest {
        // One-way CHAP does not prove the identity of the target. So if the target does
        // not authenticate this machine, `None` is no less secure. open-iscsi offers the
        // same methods.
        let methods = match &self.wish.chap {
            None => "None",
            Some(chap) if chap.reverse.is_none() => "CHAP,None",
            Some(_) => "CHAP",
        };
        let keys = [
            ("InitiatorName", self.wish.initiator.as_str()),
            ("TargetName", self.wish.target.as_str()),
            ("SessionType", "Normal"),
            ("AuthMethod", methods),
        ];
        let next = self.wish.chap.is_none().then_some(Stage::Operational);
        self.request(Stage::Security, next, text_keys::encode(keys))
    }

    /// Evaluates a response of the target.
    ///
    /// # Errors
    /// If the target refuses the login, does not prove itself, or breaks the protocol.
    pub fn answer(&mut self, response: &LoginResponse) -> Result<Next, LoginFault> {
        self.rounds += 1;
        if self.rounds > MOST_ROUNDS {
            return Err(LoginFault::Endless);
        }
        self.expected_status_number = response.status_number.wrapping_add(1);
        match response.status >> 8 {
            0 => (),
            1 => return self.redirected(&response.data),
            _ => return Err(LoginFault::Refused(Refusal(response.status))),
        }
        if response.version_active != 0 {
            return Err(LoginFault::Version(response.version_active));
        }
        if self.text.len() + response.data.len() > MOST_TEXT {
            return Err(LoginFault::TooMuchText);
        }
        self.text.extend_from_slice(&response.data);
        let stage = match self.state {
            State::Operational => Stage::Operational,
            _ => Stage::Security,
        };
        if response.current != Some(stage) {
            return Err(LoginFault::Stage(match stage {
                Stage::Security => "security",
                _ => "operational",
            }));
        }
        if response.continues {
            return Ok(Next::Send(self.request(stage, None, Vec::new())));
        }
        let text = std::mem::take(&mut self.text);
        let pairs = text_keys::decode(&text)?;
        match stage {
            Stage::Security => self.in_security(response.next, &pairs),
            _ => self.in_operational(response.next, &pairs),
        }
    }

    fn in_security(
        &mut self,
        next: Option<Stage>,
        pairs: &[(&str, &str)],
    ) -> Result<Next, LoginFault> {
        // Apply the target's keys of this stage that do not belong to security, such as
        // `TargetPortalGroupTag`.
        self.agreed.take(pairs)?;
        match &self.state {
            State::Method => match (value(pairs, "AuthMethod"), &self.wish.chap) {
                (Some("CHAP"), None) => return Err(LoginFault::NoSecret),
                (Some("CHAP"), Some(_)) => {
                    self.state = State::Algorithm;
                    let keys = text_keys::encode([("CHAP_A", chap::OFFER)]);
                    return Ok(Next::Send(self.request(Stage::Security, None, keys)));
                }
                (
                    None | Some("None"),
                    Some(Chap {
                        reverse: Some(_), ..
                    }),
                ) => {
                    return Err(LoginFault::NotProven);
                }
                (None | Some("None"), _) => (),
                (Some(other), _) => return Err(LoginFault::Method(short(other))),
            },
            State::Algorithm => return self.prove(pairs),
            State::Proof(Some(challenge)) => self.check_proof(challenge, pairs)?,
            State::Proof(None) | State::Leaving | State::Operational => (),
        }
        match next {
            Some(Stage::Operational) => {
                self.state = State::Operational;
                let keys = text_keys::encode(agreed::offer());
                Ok(Next::Send(self.request(
                    Stage::Operational,
                    Some(Stage::FullFeature),
                    keys,
                )))
            }
            Some(_) => Err(LoginFault::Stage("operational")),
            None => {
                self.state = State::Leaving;
                Ok(Next::Send(self.request(
                    Stage::Security,
                    Some(Stage::Operational),
                    Vec::new(),
                )))
            }
        }
    }

    /// Answers the target's challenge. If the target must prove itself, also sends a
    /// challenge to the target.
    fn prove(&mut self, pairs: &[(&str, &str)]) -> Result<Next, LoginFault> {
        let Some(chap) = &self.wish.chap else {
            return Err(LoginFault::NoSecret);
        };
        let text = |key| value(pairs, key).unwrap_or_default();
        let fault = |expected, key| LoginFault::Chap(expected, short(text(key)));
        let algorithm = Algorithm::chosen(text("CHAP_A"))
            .ok_or_else(|| fault("MD5, SHA1 or SHA256 (5, 6, 7) as CHAP_A", "CHAP_A"))?;
        let identifier = agreed::number(text("CHAP_I"))
            .and_then(|number| u8::try_from(number).ok())
            .ok_or_else(|| fault("a number below 256 as CHAP_I", "CHAP_I"))?;
        let challenge = chap::decode(text("CHAP_C"))
            .ok_or_else(|| fault("a binary value as CHAP_C", "CHAP_C"))?;
        let response = chap::encode(&algorithm.response(identifier, &chap.secret, &challenge));
        let own = chap.reverse.is_some().then(|| Challenge {
            algorithm,
            identifier: identifier.wrapping_add(1),
            bytes: chap::challenge(),
        });
        let own_texts = own
            .as_ref()
            .map(|own| (own.identifier.to_string(), chap::encode(&own.bytes)));
        let mut keys = vec![
            ("CHAP_N", chap.name.as_str()),
            ("CHAP_R", response.as_str()),
        ];
        if let Some((identifier, bytes)) = &own_texts {
            keys.push(("CHAP_I", identifier));
            keys.push(("CHAP_C", bytes));
        }
        let data = text_keys::encode(keys);
        self.state = State::Proof(own);
        Ok(Next::Send(self.request(
            Stage::Security,
            Some(Stage::Operational),
            data,
        )))
    }

    fn check_proof(&self, challenge: &Challenge, pairs: &[(&str, &str)]) -> Result<(), LoginFault> {
        let Some((name, secret)) = self
            .wish
            .chap
            .as_ref()
            .and_then(|chap| chap.reverse.as_ref())
        else {
            return Ok(());
        };
        let (Some(their_name), Some(response)) = (value(pairs, "CHAP_N"), value(pairs, "CHAP_R"))
        else {
            return Err(LoginFault::NotProven);
        };
        let expected = expected_proof(challenge, secret);
        match their_name == name && chap::decode(response).is_some_and(|found| found == expected) {
            true => Ok(()),
            false => Err(LoginFault::WrongProof),
        }
    }

    fn in_operational(
        &mut self,
        next: Option<Stage>,
        pairs: &[(&str, &str)],
    ) -> Result<Next, LoginFault> {
        let answers = self.agreed.take(pairs)?;
        match next {
            Some(Stage::FullFeature) => Ok(Next::Done(LoggedIn {
                agreed: self.agreed.clone(),
                expected_status_number: self.expected_status_number,
            })),
            Some(_) => Err(LoginFault::Stage("full feature")),
            None => {
                let answers = answers
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.as_str()));
                let data = text_keys::encode(answers);
                if data.len() > MOST_DATA {
                    return Err(LoginFault::TooMuchText);
                }
                Ok(Next::Send(self.request(
                    Stage::Operational,
                    Some(Stage::FullFeature),
                    data,
                )))
            }
        }
    }

    fn redirected(&self, data: &[u8]) -> Result<Next, LoginFault> {
        let pairs = text_keys::decode(data)?;
        let text = value(&pairs, "TargetAddress").unwrap_or_default();
        match Redirect::parse(text) {
            Some(redirect) => Ok(Next::Elsewhere(redirect)),
            None => Err(LoginFault::Redirection(short(text))),
        }
    }

    fn request(&self, current: Stage, next: Option<Stage>, data: Vec<u8>) -> LoginRequest {
        LoginRequest {
            current,
            next,
            isid: self.wish.isid,
            task_tag: 0,
            // A login request is immediate, so it has the number of the session's first
            // command, and the first command has the same number.
            command_number: FIRST_COMMAND,
            expected_status_number: self.expected_status_number,
            data,
        }
    }
}

/// The number of a session's first command.
pub const FIRST_COMMAND: u32 = 1;

fn expected_proof(challenge: &Challenge, secret: &Secret) -> Vec<u8> {
    challenge
        .algorithm
        .response(challenge.identifier, secret, &challenge.bytes)
}

impl Redirect {
    /// Parses `ADDRESS[:PORT][,GROUP]`. A name is not resolved: arrays redirect to
    /// addresses.
    fn parse(text: &str) -> Option<Self> {
        let (text, _) = text.split_once(',').unwrap_or((text, ""));
        let (address, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => match text.find(':') {
                Some(at) => text.split_at(at),
                None => (text, ""),
            },
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port != 0)?,
            None if port.is_empty() => 3260,
            None => return None,
        };
        let address: IpAddr = address.parse().ok()?;
        (!address.is_unspecified() && !address.is_multicast()).then_some(Self { address, port })
    }
}

/// The start of a foreign text, for a message.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests;
