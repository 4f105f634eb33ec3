//! Parses `ifname=`.

use super::device::is_interface_name;
use crate::cmdline::Token;
use crate::mac::MacAddr;

/// One `ifname=NAME:MAC`: gives this name to the NIC with this address. The argument is
/// dracut's (`parse-ifname-opts`), and dracut writes a udev rule for it. Neither
/// NetworkManager nor the network plan reads the argument: the code that names the NICs
/// applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameArgument {
    /// The argument as written on the command line.
    pub text: String,
    pub name: String,
    /// The NIC's permanent address.
    pub mac: MacAddr,
}

impl NameArgument {
    pub(super) fn parse(token: &Token, warnings: &mut Vec<String>) -> Option<NameArgument> {
        let value = token.value_or_empty();
        let found = value.split_once(':').and_then(|(name, mac)| {
            let mac = mac.strip_prefix('[').unwrap_or(mac);
            let mac = mac.strip_suffix(']').unwrap_or(mac).parse().ok()?;
            is_interface_name(name).then(|| NameArgument {
                text: token.text.clone(),
                name: name.to_owned(),
                mac,
            })
        });
        if found.is_none() {
            warnings.push(token.ignored("expected NAME:MAC"));
        }
        found
    }

    /// Adds the argument to the earlier ones. If two arguments have the same address,
    /// the later one takes effect, as with udev's rules. If two arguments give the same
    /// name to different addresses, the later one is ignored with a warning, because
    /// two NICs cannot have the same name.
    pub(super) fn add_to(self, list: &mut Vec<NameArgument>, warnings: &mut Vec<String>) {
        let taken = |known: &&NameArgument| known.name == self.name && known.mac != self.mac;
        if let Some(known) = list.iter().find(taken) {
            warnings.push(format!(
                "{}: an earlier ifname= gives this name to {}; ignored",
                self.text, known.mac
            ));
            return;
        }
        list.retain(|known| known.mac != self.mac);
        list.push(self);
    }
}
