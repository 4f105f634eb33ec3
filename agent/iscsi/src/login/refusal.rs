//! The statuses with which a target rejects a login (RFC 7143, 11.13.5), and the
//! remedies for an operator.

use std::fmt;

/// The status of a response: its class in the high byte, its detail in the low byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub u16);

/// Why a login failed. The cause determines the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The target does not accept the CHAP name and response of this machine, or requires
    /// an authentication that this machine cannot give.
    Authentication,
    /// The target did not authenticate itself, or its CHAP response is wrong.
    Proof,
    /// The target does not permit this initiator.
    Forbidden,
    /// There is no such target.
    UnknownTarget,
    /// The target is busy. It may accept the login later.
    Temporary,
    /// The initiator or the target violates the protocol.
    Protocol,
}

impl Refusal {
    pub fn cause(self) -> Cause {
        match self.0 {
            0x0201 => Cause::Authentication,
            0x0202 => Cause::Forbidden,
            0x0203 | 0x0204 => Cause::UnknownTarget,
            0x0206 => Cause::Temporary,
            status if status >> 8 == 3 => Cause::Temporary,
            _ => Cause::Protocol,
        }
    }

    fn words(self) -> &'static str {
        match self.0 {
            0x0200 => "initiator error",
            0x0201 => "authentication failed",
            0x0202 => "this initiator is not permitted",
            0x0203 => "target not found",
            0x0204 => "target removed",
            0x0205 => "unsupported version",
            0x0206 => "too many connections",
            0x0207 => "missing parameter",
            0x0208 => "cannot include the connection in this session",
            0x0209 => "session type not supported",
            0x020a => "session does not exist",
            0x020b => "invalid during login",
            0x0300 => "target error",
            0x0301 => "service unavailable",
            0x0302 => "out of resources",
            _ => "unknown status",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the target refuses the login: {} (status {:#06x})",
            self.words(),
            self.0
        )
    }
}

impl Cause {
    /// Whether a later login can succeed without a change by somebody.
    pub fn is_temporary(self) -> bool {
        self == Self::Temporary
    }

    /// What the operator does next.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Authentication => {
                "compare the CHAP name and secret in the firmware's iSCSI settings with those of the target"
            }
            Self::Proof => {
                "compare the reverse CHAP name and secret in the firmware's iSCSI settings with those of the target"
            }
            Self::Forbidden => "permit the name of this initiator in the access list of the target",
            Self::UnknownTarget => {
                "compare the target name in the firmware's iSCSI settings with the names on the array, and check the access list there"
            }
            Self::Temporary => "look at the state and the number of sessions of the array",
            Self::Protocol => "report this with the model and the version of the array",
        }
    }
}
