//! Decides what happens to each agent. Has no side effects.

use std::net::Ipv4Addr;

/// The maximum number of agents. They have the addresses from 192.0.2.10 to
/// 192.0.2.249.
pub const MOST_AGENTS: u16 = 240;

/// The last byte of the first agent's address.
const FIRST_ADDRESS: u16 = 10;

/// The link between an agent and the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Good,
    /// Loses, duplicates and reorders frames: see [`super::poor_link`].
    Poor,
}

/// What goes wrong for an agent, apart from its link and the conductor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    None,
    /// The image server breaks the first transfer and closes its port for a while.
    ServerDiesOnce,
    /// The image server stops sending in the middle of the first transfer, but keeps
    /// the connection.
    ServerStallsOnce,
    /// After the first transfer has broken, the image is gone.
    ImageGone,
    /// The image server sends bytes that do not match Ironic's digest.
    WrongBytes,
    /// The file below the disk is on a file system that is too small for the image.
    FullDisk,
    /// The image is larger than the disk.
    LargeImage,
}

/// How a node must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Active,
    /// "deploy failed", with this text in `last_error`.
    FailsWith(&'static str),
}

/// One agent with its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// From 0.
    pub number: u16,
    pub link: Link,
    pub trouble: Trouble,
}

impl Trouble {
    #[must_use]
    pub fn expected(self) -> Expected {
        match self {
            Self::None | Self::ServerDiesOnce | Self::ServerStallsOnce => Expected::Active,
            // The agent reports "HTTP status 404". If the node is deployed once more,
            // Ironic detects the missing image first and reports "Got HTTP code 404".
            Self::ImageGone => Expected::FailsWith("404"),
            Self::WrongBytes => Expected::FailsWith("checksum mismatch: sha256"),
            Self::FullDisk => Expected::FailsWith("No space left on device"),
            Self::LargeImage => Expected::FailsWith("larger than the disk"),
        }
    }

    /// The name for the tables of the report.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::ServerDiesOnce => "image server dies, returns",
            Self::ServerStallsOnce => "image server stalls once",
            Self::ImageGone => "image server dies, image is gone",
            Self::WrongBytes => "image server sends wrong bytes",
            Self::FullDisk => "file system below the disk is full",
            Self::LargeImage => "image is larger than the disk",
        }
    }
}

/// The troubles of twenty agents, by number; larger runs repeat the list. Each trouble
/// is among the first eight, so that a small run has them too.
const TROUBLES: [Trouble; 20] = {
    let mut all = [Trouble::None; 20];
    all[2] = Trouble::WrongBytes;
    all[3] = Trouble::ServerDiesOnce;
    all[4] = Trouble::FullDisk;
    all[5] = Trouble::ServerStallsOnce;
    all[6] = Trouble::ImageGone;
    all[7] = Trouble::LargeImage;
    all[12] = Trouble::ServerDiesOnce;
    all[15] = Trouble::ServerStallsOnce;
    all
};

/// Returns the agents, with the troubles in the order of `TROUBLES`. Every second
/// agent has a poor link.
#[must_use]
pub fn cast(agents: u16) -> Vec<Part> {
    (0..agents)
        .map(|number| Part {
            number,
            link: if number % 2 == 1 {
                Link::Poor
            } else {
                Link::Good
            },
            trouble: TROUBLES[usize::from(number) % TROUBLES.len()],
        })
        .collect()
}

/// Agents without any trouble, on good links.
#[must_use]
pub fn untroubled(agents: u16) -> Vec<Part> {
    (0..agents)
        .map(|number| Part {
            number,
            link: Link::Good,
            trouble: Trouble::None,
        })
        .collect()
}

impl Part {
    /// The node's name in Ironic.
    #[must_use]
    pub fn name(&self) -> String {
        format!("agent-{:03}", self.number)
    }

    /// Whether the agent's wall clock jumps by years during the whole run.
    #[must_use]
    pub fn clock_jumps(&self) -> bool {
        self.number.is_multiple_of(10)
    }

    #[must_use]
    pub fn mac(&self) -> String {
        format!("52:54:00:e0:00:{:02x}", self.number)
    }

    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        let last = self.number + FIRST_ADDRESS;
        Ipv4Addr::new(192, 0, 2, u8::try_from(last).unwrap_or(u8::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_agents_share_an_address() {
        let all = cast(MOST_AGENTS);
        let addresses: BTreeSet<_> = all.iter().map(Part::address).collect();
        let macs: BTreeSet<_> = all.iter().map(Part::mac).collect();
        assert_eq!((addresses.len(), macs.len()), (240, 240));
    }

    #[test]
    fn a_small_run_has_every_trouble() {
        let small: BTreeSet<_> = cast(8).iter().map(|part| part.trouble).collect();
        let large: BTreeSet<_> = cast(200).iter().map(|part| part.trouble).collect();
        assert_eq!(small, large);
        let mut jumping = cast(200).into_iter().filter(Part::clock_jumps);
        assert!(jumping.all(|part| part.trouble == Trouble::None));
    }
}
