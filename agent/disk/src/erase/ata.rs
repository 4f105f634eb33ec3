//! Erases an ATA disk with its own security feature set (ACS-4, section 4.18). The
//! agent sets a password and sends this password with the erase command. A successful
//! erase removes the password. A failed erase leaves the disk locked, so the agent
//! unlocks it.

use std::fs::File;
use std::io;
use std::time::Duration;

use landfall_media_formats::little_endian::u16_at;

use super::ata_pass_through::{AtaData, BLOCK, ata};

const IDENTIFY_DEVICE: u8 = 0xec;
const SECURITY_SET_PASSWORD: u8 = 0xf1;
const SECURITY_UNLOCK: u8 = 0xf2;
const SECURITY_ERASE_PREPARE: u8 = 0xf3;
const SECURITY_ERASE_UNIT: u8 = 0xf4;
const SECURITY_DISABLE_PASSWORD: u8 = 0xf6;
const SHORT: Duration = Duration::from_secs(30);
/// Time limit if the disk does not report how long an erase takes. hdparm has the same
/// limit.
const LONGEST_ERASE: Duration = Duration::from_secs(12 * 3600);

/// Passwords that hdparm may have set for its argument `NULL`: an empty password or, in
/// old versions, the text `NULL` itself.
const PASSWORDS: [&[u8]; 2] = [b"", b"NULL"];

/// Security state of a disk (IDENTIFY DEVICE).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Security {
    /// The disk has the feature set.
    pub supported: bool,
    /// A user password is set.
    pub enabled: bool,
    /// The disk returns no data until it is unlocked.
    pub locked: bool,
    /// The firmware has frozen the security state, so the disk rejects all security
    /// commands until the next power cycle.
    pub frozen: bool,
    /// The disk supports the enhanced erase, which includes reallocated sectors.
    pub enhanced: bool,
    /// Duration of a plain and of an enhanced erase. `None` if the disk does not report
    /// it, or if it is too long for the field.
    pub durations: [Option<Duration>; 2],
}

/// What the agent does next with a disk in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// The disk cannot erase itself.
    Unsupported,
    /// The disk rejects an erase, because its security state is frozen.
    Frozen,
    /// Unlock the disk first.
    Unlock,
    /// Set a password, then erase.
    SetPasswordAndErase,
    /// Erase: a password is set, probably by an earlier attempt.
    Erase,
}

impl Security {
    /// Parses the 256 words of IDENTIFY DEVICE.
    pub fn parse(identify: &[u8; BLOCK]) -> Self {
        let word = |number: usize| u16_at(identify, 2 * number).unwrap_or_default();
        let bit = |number: usize, bit: u16| word(number) & 1 << bit != 0;
        let duration = |number: usize| {
            // In units of two minutes. The count has 15 bits if bit 15 is set,
            // otherwise 8 bits. 0 means that the disk does not report the duration. The
            // largest count means that the duration is too long for the field.
            let (count, longest) = match word(number) {
                value if value & 1 << 15 != 0 => (value & 0x7fff, 0x7fff),
                value => (value & 0xff, 0xff),
            };
            (count != 0 && count != longest).then(|| Duration::from_secs(u64::from(count) * 120))
        };
        // Words 82 and 128 report support. Word 128 is valid only if word 82 reports it.
        let supported = bit(82, 1) && bit(128, 0);
        Self {
            supported,
            enabled: supported && bit(128, 1),
            locked: supported && bit(128, 2),
            frozen: supported && bit(128, 3),
            enhanced: supported && bit(128, 5),
            durations: [duration(89), duration(90)],
        }
    }

    pub fn plan(&self) -> Plan {
        match self {
            Self {
                supported: false, ..
            } => Plan::Unsupported,
            Self { frozen: true, .. } => Plan::Frozen,
            Self { locked: true, .. } => Plan::Unlock,
            Self { enabled: false, .. } => Plan::SetPasswordAndErase,
            _ => Plan::Erase,
        }
    }

    fn limit(&self) -> Duration {
        // Disks may take some minutes longer than they report. So the limit is the
        // reported time plus a quarter of it plus 10 minutes. A limit that is too long
        // does no harm.
        self.durations[usize::from(self.enhanced)].map_or(LONGEST_ERASE, |time| {
            time + time / 4 + Duration::from_secs(600)
        })
    }
}

pub trait AtaCommands {
    /// Executes one command within the time `limit`.
    ///
    /// # Errors
    /// See [`ata`].
    fn execute(&self, command: u8, data: AtaData<'_>, limit: Duration) -> io::Result<()>;
}

impl AtaCommands for File {
    fn execute(&self, command: u8, data: AtaData<'_>, limit: Duration) -> io::Result<()> {
        ata(self, command, data, limit)
    }
}

/// Makes the disk erase itself. Returns `false` if it cannot.
///
/// # Errors
/// If the disk is frozen, has another password, or fails.
pub fn erase(disk: &impl AtaCommands) -> io::Result<bool> {
    let mut security = identify(disk)?;
    if security.plan() == Plan::Unlock {
        security = try_passwords(disk)?;
    }
    let passwords: &[&[u8]] = match security.plan() {
        Plan::Unsupported => return Ok(false),
        Plan::Frozen => {
            return Err(io::Error::other(
                "its security is frozen by the firmware until the next power cycle",
            ));
        }
        Plan::Unlock => return Err(wrong_password()),
        Plan::SetPasswordAndErase => {
            let parameters = password(b"", 0);
            disk.execute(SECURITY_SET_PASSWORD, AtaData::To(&parameters), SHORT)
                .map_err(|e| io::Error::other(format!("cannot set a password: {e}")))?;
            &PASSWORDS[..1]
        }
        // An unlocked disk does not report which password is set, so the agent tries all
        // passwords.
        Plan::Erase => &PASSWORDS,
    };
    let mut erased = Ok(());
    for text in passwords {
        erased = erase_unit(disk, &security, text);
        if erased.is_ok() {
            break;
        }
    }
    if let Err(error) = erased {
        // The disk must not stay locked, because a locked disk cannot be overwritten.
        // Unless the agent removes the password, the disk is locked again after the next
        // power cycle.
        if let Err(second) = remove_password(disk) {
            tracing::error!(
                "cannot remove the password of the disk after its erase failed: {second}; \
                 it will be locked after the next power cycle"
            );
        }
        return Err(error);
    }
    if identify(disk)?.enabled {
        return Err(io::Error::other(
            "its password is still set after the erase",
        ));
    }
    Ok(true)
}

/// Unlocks a disk that an interrupted erase left locked, and removes its password.
/// Returns `false` if the disk was not locked.
///
/// # Errors
/// If the disk is locked with another password, is frozen, or does not answer.
pub fn unlock(disk: &impl AtaCommands) -> io::Result<bool> {
    let before = identify(disk)?;
    if !before.locked {
        return Ok(false);
    }
    if before.frozen || try_passwords(disk)?.locked {
        return Err(wrong_password());
    }
    // The disk can be erased now; the erase removes the password, too.
    if let Err(error) = remove_password(disk) {
        tracing::warn!("cannot remove the password of the disk: {error}");
    }
    Ok(true)
}

/// Unlocks the disk and removes its password, if it is one of [`PASSWORDS`].
fn remove_password(disk: &impl AtaCommands) -> io::Result<()> {
    if try_passwords(disk)?.locked {
        return Err(wrong_password());
    }
    for text in PASSWORDS {
        if !identify(disk)?.enabled {
            return Ok(());
        }
        let parameters = password(text, 0);
        let removed = disk.execute(SECURITY_DISABLE_PASSWORD, AtaData::To(&parameters), SHORT);
        if let Err(error) = removed {
            tracing::info!("cannot remove the password of the disk: {error}");
        }
    }
    match identify(disk)?.enabled {
        true => Err(io::Error::other("its password is still set")),
        false => Ok(()),
    }
}

fn wrong_password() -> io::Error {
    io::Error::other("it is locked with a password")
}

/// Bit 1 of the first word requests the enhanced erase. Bit 0 stays 0, which selects
/// the user password.
fn erase_unit(disk: &impl AtaCommands, security: &Security, text: &[u8]) -> io::Result<()> {
    disk.execute(SECURITY_ERASE_PREPARE, AtaData::None, SHORT)?;
    let parameters = password(text, u16::from(security.enhanced) << 1);
    disk.execute(
        SECURITY_ERASE_UNIT,
        AtaData::To(&parameters),
        security.limit(),
    )
}

/// Tries all passwords. Returns the state afterwards.
fn try_passwords(disk: &impl AtaCommands) -> io::Result<Security> {
    for text in PASSWORDS {
        let security = identify(disk)?;
        if !security.locked {
            return Ok(security);
        }
        let parameters = password(text, 0);
        if let Err(error) = disk.execute(SECURITY_UNLOCK, AtaData::To(&parameters), SHORT) {
            tracing::info!("cannot unlock the disk: {error}");
        }
    }
    identify(disk)
}

fn identify(disk: &impl AtaCommands) -> io::Result<Security> {
    let mut data = [0; BLOCK];
    disk.execute(IDENTIFY_DEVICE, AtaData::From(&mut data), SHORT)?;
    Ok(Security::parse(&data))
}

/// The parameter block: flags, then a password of 32 bytes.
fn password(text: &[u8], flags: u16) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..2].copy_from_slice(&flags.to_le_bytes());
    block[2..2 + text.len()].copy_from_slice(text);
    block
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Models the security feature set of a disk (ACS-4, figure 6).
    #[derive(Default)]
    struct Model {
        password: Option<Vec<u8>>,
        locked: bool,
        frozen: bool,
        prepared: bool,
        erased: bool,
        /// The erase fails and leaves the disk locked, as after a power cut.
        fails: bool,
    }

    impl AtaCommands for RefCell<Model> {
        fn execute(&self, command: u8, data: AtaData<'_>, _limit: Duration) -> io::Result<()> {
            let disk = &mut *self.borrow_mut();
            let aborted = || Err(io::Error::other("aborted"));
            let prepared = std::mem::take(&mut disk.prepared);
            match (command, data) {
                (IDENTIFY_DEVICE, AtaData::From(answer)) => {
                    let status = 1
                        | u16::from(disk.password.is_some()) << 1
                        | u16::from(disk.locked) << 2
                        | u16::from(disk.frozen) << 3;
                    *answer = identify_data(&[(82, 2), (128, status)]);
                }
                _ if disk.frozen => return aborted(),
                (SECURITY_SET_PASSWORD, AtaData::To(block)) if !disk.locked => {
                    disk.password = Some(block[2..34].to_vec());
                }
                (SECURITY_UNLOCK, AtaData::To(block))
                    if disk.password.as_deref() == Some(&block[2..34]) =>
                {
                    disk.locked = false;
                }
                (SECURITY_DISABLE_PASSWORD, AtaData::To(block))
                    if !disk.locked && disk.password.as_deref() == Some(&block[2..34]) =>
                {
                    disk.password = None;
                }
                (SECURITY_ERASE_PREPARE, AtaData::None) => disk.prepared = true,
                (SECURITY_ERASE_UNIT, AtaData::To(block))
                    if prepared && disk.password.as_deref() == Some(&block[2..34]) =>
                {
                    if disk.fails {
                        disk.locked = true;
                        return aborted();
                    }
                    (disk.password, disk.locked, disk.erased) = (None, false, true);
                }
                _ => return aborted(),
            }
            Ok(())
        }
    }

    fn model(text: Option<&[u8]>, locked: bool) -> RefCell<Model> {
        RefCell::new(Model {
            password: text.map(|text| password(text, 0)[2..34].to_vec()),
            locked,
            ..Model::default()
        })
    }

    #[test]
    fn a_disk_that_an_interrupted_erase_left_locked_is_erased() {
        for text in PASSWORDS {
            for locked in [false, true] {
                let disk = model(Some(text), locked);
                assert!(erase(&disk).unwrap(), "{text:?} {locked}");
                assert!(disk.borrow().erased && disk.borrow().password.is_none());
            }
        }
        let disk = model(None, false);
        assert!(erase(&disk).unwrap());
        for text in [None, Some(PASSWORDS[0]), Some(PASSWORDS[1])] {
            let disk = model(text, false);
            disk.borrow_mut().fails = true;
            assert!(erase(&disk).is_err());
            assert!(!disk.borrow().locked, "it can still be overwritten");
            assert_eq!(
                disk.borrow().password,
                None,
                "the next boot finds it locked"
            );
        }
    }

    #[test]
    fn only_our_own_passwords_unlock_a_disk() {
        assert!(!unlock(&model(None, false)).unwrap(), "it is not locked");
        assert!(!unlock(&model(Some(b"secret"), false)).unwrap());
        for text in PASSWORDS {
            let disk = model(Some(text), true);
            assert!(unlock(&disk).unwrap());
            assert!(!disk.borrow().locked && !disk.borrow().erased);
            assert_eq!(
                disk.borrow().password,
                None,
                "the next boot finds it locked"
            );
        }
        let disk = model(Some(b"secret"), true);
        for failure in [unlock(&disk).map(drop), erase(&disk).map(drop)] {
            let reason = failure.unwrap_err().to_string();
            assert!(reason.contains("locked with a password"), "{reason}");
        }
        let disk = model(Some(b""), true);
        disk.borrow_mut().frozen = true;
        assert!(unlock(&disk).is_err());
    }

    fn identify_data(words: &[(usize, u16)]) -> [u8; BLOCK] {
        let mut data = [0; BLOCK];
        for (number, value) in words {
            data[number * 2..number * 2 + 2].copy_from_slice(&value.to_le_bytes());
        }
        data
    }

    #[test]
    fn each_state_has_a_plan() {
        for (features, status, plan) in [
            (0, 0, Plan::Unsupported),
            (0, 0x2f, Plan::Unsupported),
            (2, 0x01, Plan::SetPasswordAndErase),
            (2, 0x21, Plan::SetPasswordAndErase),
            (2, 0x03, Plan::Erase),
            (2, 0x07, Plan::Unlock),
            (2, 0x09, Plan::Frozen),
            (2, 0x0f, Plan::Frozen),
        ] {
            let data = identify_data(&[(82, features), (128, status)]);
            assert_eq!(
                Security::parse(&data).plan(),
                plan,
                "{features:x} {status:x}"
            );
        }
    }

    #[test]
    fn the_disk_says_how_long_it_takes() {
        let security = |plain, enhanced| {
            let data = identify_data(&[(82, 2), (128, 0x21), (89, plain), (90, enhanced)]);
            Security::parse(&data)
        };
        let minutes = |count: u64| Some(Duration::from_secs(count * 60));
        assert_eq!(security(1, 30).durations, [minutes(2), minutes(60)]);
        assert_eq!(security(0x80ff, 0).durations, [minutes(510), None]);
        assert_eq!(security(0xff, 0xffff).durations, [None, None]);
        assert_eq!(
            security(1, 30).limit(),
            Duration::from_secs(3600 + 900 + 600)
        );
        assert_eq!(security(1, 0).limit(), LONGEST_ERASE);
    }

    #[test]
    fn parameters_of_the_erase() {
        assert_eq!(password(b"", 2)[..4], [2, 0, 0, 0]);
        assert_eq!(&password(b"NULL", 0)[..7], b"\0\0NULL\0");
    }
}
