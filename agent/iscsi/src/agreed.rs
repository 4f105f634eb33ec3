//! The operational parameters of a session (RFC 7143, 13): what we offer, and what both
//! sides agree on.

/// Our offer. The sizes are the defaults of open-iscsi (iscsid.conf), because arrays are
/// tested with open-iscsi. A digest costs time on both sides, so the target decides
/// whether to use digests. A key without a value is not offered: only the target sends
/// it.
const OFFER: [(&str, &str); 15] = [
    ("HeaderDigest", "None,CRC32C"),
    ("DataDigest", "None,CRC32C"),
    ("MaxRecvDataSegmentLength", "262144"),
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("MaxBurstLength", "16776192"),
    ("FirstBurstLength", "262144"),
    ("DefaultTime2Wait", "2"),
    ("DefaultTime2Retain", "0"),
    ("MaxConnections", "1"),
    ("MaxOutstandingR2T", "1"),
    ("ErrorRecoveryLevel", "0"),
    ("DataPDUInOrder", "Yes"),
    ("DataSequenceInOrder", "Yes"),
    ("TargetPortalGroupTag", ""),
];

/// The limits of lengths in bytes (RFC 7143, 13.12 to 13.14).
const SHORTEST: u32 = 512;
const LONGEST: u32 = 0x00ff_ffff;

/// The result of the negotiation, for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    pub header_digest: bool,
    pub data_digest: bool,
    /// The longest data segment that this side receives, in bytes.
    pub longest_received: u32,
    /// The longest data segment that the target receives, in bytes.
    pub longest_sent: u32,
    pub initial_r2t: bool,
    pub immediate_data: bool,
    pub longest_burst: u32,
    pub longest_first_burst: u32,
    pub ready_to_transfer: u32,
    pub data_in_order: bool,
    pub sequence_in_order: bool,
    /// In seconds: the pause before a login after a lost connection.
    pub time_to_wait: u16,
    pub portal_group: Option<u16>,
}

impl Default for Agreed {
    /// The values of our offer, which apply until the target answers. `longest_sent`
    /// has the RFC's default, because only the target declares this value.
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            longest_received: 262_144,
            longest_sent: 8192,
            initial_r2t: false,
            immediate_data: true,
            longest_burst: 16_776_192,
            longest_first_burst: 262_144,
            ready_to_transfer: 1,
            data_in_order: true,
            sequence_in_order: true,
            time_to_wait: 2,
            portal_group: None,
        }
    }
}

/// An answer of the target that our offer does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} for {key}, found {found:?}")]
pub struct Disagreement {
    pub key: String,
    pub expected: &'static str,
    pub found: String,
}

/// The keys of our offer.
pub(crate) fn offer() -> impl Iterator<Item = (&'static str, &'static str)> {
    OFFER.into_iter().filter(|(_, value)| !value.is_empty())
}

impl Agreed {
    /// Applies the target's answers and declarations. Returns our answers to keys that
    /// the target offers on its own.
    ///
    /// # Errors
    /// If our offer does not allow an answer.
    pub fn take(&mut self, pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, Disagreement> {
        let mut answers = Vec::new();
        for (key, found) in pairs {
            self.take_one(key, found)?;
            // An unknown key requires an answer (RFC 7143, 6.2). Keys of the security
            // stage and declarations of the target require none.
            let known = OFFER.iter().any(|(own, _)| own == key)
                || SECURITY_AND_DECLARED.contains(key)
                || ["NotUnderstood", "Irrelevant", "Reject"].contains(found);
            if !known {
                answers.push(((*key).to_owned(), "NotUnderstood".to_owned()));
            }
        }
        self.longest_first_burst = self.longest_first_burst.min(self.longest_burst);
        Ok(answers)
    }

    fn take_one(&mut self, key: &str, found: &str) -> Result<(), Disagreement> {
        // The value of our offer stays for a key that the target does not use.
        if ["Irrelevant", "NotUnderstood"].contains(&found) {
            return Ok(());
        }
        let fault = |expected| Disagreement {
            key: key.to_owned(),
            expected,
            found: found.chars().take(64).collect(),
        };
        let digest = || match found {
            "None" => Ok(false),
            "CRC32C" => Ok(true),
            _ => Err(fault("None or CRC32C")),
        };
        let boolean = || match found {
            "Yes" => Ok(true),
            "No" => Ok(false),
            _ => Err(fault("Yes or No")),
        };
        let length = || match number(found) {
            Some(length @ SHORTEST..=LONGEST) => Ok(length),
            _ => Err(fault("a length from 512 to 16777215")),
        };
        match key {
            "HeaderDigest" => self.header_digest = digest()?,
            "DataDigest" => self.data_digest = digest()?,
            "MaxRecvDataSegmentLength" => self.longest_sent = length()?,
            "InitialR2T" => self.initial_r2t |= boolean()?,
            "ImmediateData" => self.immediate_data &= boolean()?,
            "MaxBurstLength" => self.longest_burst = self.longest_burst.min(length()?),
            "FirstBurstLength" => {
                self.longest_first_burst = self.longest_first_burst.min(length()?);
            }
            "DefaultTime2Wait" => match number(found) {
                Some(seconds @ 0..=3600) => {
                    self.time_to_wait = u16::try_from(seconds).unwrap_or(u16::MAX);
                }
                _ => return Err(fault("0 to 3600 seconds")),
            },
            "ErrorRecoveryLevel" if number(found) != Some(0) => return Err(fault("0")),
            "DataPDUInOrder" => self.data_in_order |= boolean()?,
            "DataSequenceInOrder" => self.sequence_in_order |= boolean()?,
            "TargetPortalGroupTag" => {
                let tag = number(found).and_then(|tag| u16::try_from(tag).ok());
                self.portal_group = Some(tag.ok_or_else(|| fault("a number below 65536"))?);
            }
            _ => (),
        }
        Ok(())
    }
}

const SECURITY_AND_DECLARED: [&str; 9] = [
    "AuthMethod",
    "CHAP_A",
    "CHAP_C",
    "CHAP_I",
    "CHAP_N",
    "CHAP_R",
    "TargetAlias",
    "TargetAddress",
    "TargetName",
];

/// A number in decimal or hexadecimal notation (RFC 7143, 6.1).
pub(crate) fn number(text: &str) -> Option<u32> {
    let is_plain = |text: &str| text.starts_with(|first: char| first.is_ascii_hexdigit());
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => is_plain(digits).then(|| u32::from_str_radix(digits, 16).ok())?,
        None => is_plain(text).then(|| text.parse().ok())?,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_sides_limits_hold() {
        let mut agreed = Agreed::default();
        let answers = agreed.take(&[
            ("HeaderDigest", "CRC32C"),
            ("MaxRecvDataSegmentLength", "0x10000"),
            ("InitialR2T", "Yes"),
            ("ImmediateData", "No"),
            ("MaxBurstLength", "131072"),
            ("DefaultTime2Wait", "5"),
            ("TargetPortalGroupTag", "1"),
            ("TargetAlias", "array"),
            ("MaxConnections", "Irrelevant"),
            ("IFMarker", "No"),
        ]);
        let not_understood = ("IFMarker".to_owned(), "NotUnderstood".to_owned());
        assert_eq!(answers, Ok(vec![not_understood]));
        let expected = Agreed {
            header_digest: true,
            longest_sent: 0x10000,
            initial_r2t: true,
            immediate_data: false,
            longest_burst: 131_072,
            longest_first_burst: 131_072,
            time_to_wait: 5,
            portal_group: Some(1),
            ..Agreed::default()
        };
        assert_eq!(agreed, expected);
    }

    #[test]
    fn impossible_answers_are_named() {
        for (key, found, expected) in [
            ("HeaderDigest", "CRC64", "None or CRC32C"),
            ("InitialR2T", "Reject", "Yes or No"),
            ("MaxBurstLength", "+600", "a length from 512 to 16777215"),
            (
                "MaxRecvDataSegmentLength",
                "511",
                "a length from 512 to 16777215",
            ),
            ("ErrorRecoveryLevel", "2", "0"),
            ("DefaultTime2Wait", "9999", "0 to 3600 seconds"),
        ] {
            let fault = Agreed::default().take(&[(key, found)]).unwrap_err();
            assert_eq!(
                fault.to_string(),
                format!("expected {expected} for {key}, found {found:?}")
            );
        }
    }

    proptest! {
        #[test]
        fn lengths_stay_within_the_rfc(key in "(Max|First)[A-Za-z]{0,30}Length", text in "[0-9x]{0,10}") {
            let mut agreed = Agreed::default();
            let _ = agreed.take(&[(&key, &text)]);
            for length in [agreed.longest_sent, agreed.longest_burst, agreed.longest_first_burst] {
                prop_assert!((SHORTEST..=LONGEST).contains(&length));
            }
        }
    }
}
