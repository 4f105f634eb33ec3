//! Identifies SCSI disks in the same way as udev's scsi_id.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::{DiskIdentity, cleaned, non_empty, scsi_kind};
use crate::disk_query::DiskQuery;
use crate::vpd::{self, Designator, Kind};

/// The number of bytes of a page that scsi_id reads.
const PAGE_LIMIT: usize = 254;

/// The identity of a SCSI device. The kernel does not read the pages of old and
/// unreliable disks; this function then requests the pages from the disk.
pub fn identity(device: &SystemPath, query: &DiskQuery) -> DiskIdentity {
    let kept = |code: u8| {
        let name = match code {
            0 => "vpd_pg0".to_owned(),
            code => format!("vpd_pg{code:02x}"),
        };
        sysfs::bytes(&device.join(name)).filter(|page| page.get(1) == Some(&code))
    };
    let page = |code: u8| {
        let mut page = kept(code).or_else(|| query.page(code))?;
        page.truncate(PAGE_LIMIT);
        Some(page)
    };
    // A page that the kernel keeps is also in the disk's list of pages (page 0). Older
    // kernels do not keep page 0 itself.
    let listed =
        |code: u8| kept(code).is_some() || page(0).is_some_and(|pages| vpd::lists(&pages, code));
    let inquiry = inquiry(device, query);
    let product = || {
        let field = |text: &Option<String>| text.clone().unwrap_or_default();
        format!(
            "{:<8}{:<16}",
            field(&inquiry.vendor_text),
            field(&inquiry.model_text)
        )
    };
    let unit_serial = || {
        page(0x80)
            .and_then(|page| vpd::unit_serial(&page))
            .and_then(non_empty)
    };
    if listed(0x83)
        && let Some(page) = page(0x83)
        && let Some(name) = unit_name(&page, &product())
    {
        return DiskIdentity {
            serial: cleaned(&format!("{}{}{}", name.digit, name.prefix, name.text)),
            serial_short: cleaned(&name.short()),
            scsi_serial: unit_serial(),
            ..name.world_wide(inquiry)
        };
    }
    let Some(unit_serial) = unit_serial().filter(|_| listed(0x80)) else {
        return inquiry;
    };
    DiskIdentity {
        serial: cleaned(&format!("S{}{unit_serial}", product())),
        serial_short: cleaned(&unit_serial),
        ..inquiry
    }
}

/// Vendor, model and revision, from the kernel's attributes or from INQUIRY data.
fn inquiry(device: &SystemPath, query: &DiskQuery) -> DiskIdentity {
    let data = sysfs::bytes(&device.join("inquiry")).or_else(|| query.inquiry());
    let field = |attribute: &str, start: usize, end: usize| {
        let kept = sysfs::padded_text(&device.join(attribute));
        kept.or_else(|| Some(String::from_utf8_lossy(data.as_ref()?.get(start..end)?).into_owned()))
    };
    let (vendor_text, model_text) = (field("vendor", 8, 16), field("model", 16, 32));
    DiskIdentity {
        vendor: vendor_text.as_deref().and_then(cleaned),
        vendor_text,
        model: model_text.as_deref().and_then(cleaned),
        model_text,
        revision: field("rev", 32, 36).as_deref().and_then(cleaned),
        bus: Some("scsi"),
        kind: Some(scsi_kind(device)),
        ..DiskIdentity::default()
    }
}

/// The designator that scsi_id uses as the name of the disk.
struct UnitName {
    /// The number of the designator type; `ID_SERIAL` begins with it.
    digit: char,
    /// Vendor and model, if the name alone is not unique; otherwise empty.
    prefix: String,
    text: String,
    /// Whether it is a World Wide Name.
    is_naa: bool,
    /// Whether the page has the format before SPC-3.
    is_old: bool,
}

impl UnitName {
    /// The name without the prefix. For a page in the format before SPC-3, scsi_id puts
    /// the digit before the name.
    fn short(&self) -> String {
        if self.is_old {
            return format!("{}{}", self.digit, self.text);
        }
        self.text.clone()
    }

    /// Adds this name to `identity` as WWN: the first 16 hexadecimal digits, and the
    /// other digits as the vendor's extension.
    fn world_wide(&self, identity: DiskIdentity) -> DiskIdentity {
        if !self.is_naa {
            return identity;
        }
        let wwn: String = self.text.chars().take(16).collect();
        let extension: String = self.text.chars().skip(16).take(16).collect();
        DiskIdentity {
            wwn: Some(format!("0x{wwn}")),
            wwn_with_extension: Some(format!("0x{wwn}{extension}")),
            wwn_vendor_extension: (!extension.is_empty()).then(|| format!("0x{extension}")),
            ..identity
        }
    }
}

/// The best name in page 0x83. The kinds of names are tried in scsi_id's order; for each
/// kind the binary form takes precedence over the text form.
fn unit_name(page: &[u8], product: &str) -> Option<UnitName> {
    if let Some(bytes) = vpd::pre_spc3_name(page) {
        return Some(UnitName {
            digit: '3',
            prefix: String::new(),
            text: hexadecimal(bytes),
            is_naa: false,
            is_old: true,
        });
    }
    let naa = |wanted: u8| {
        move |d: &Designator<'_>| {
            d.kind == Kind::Naa && d.bytes.first().is_some_and(|byte| byte >> 4 == wanted)
        }
    };
    let kind = |wanted: Kind| move |d: &Designator<'_>| d.kind == wanted;
    find(page, naa(6))
        .or_else(|| find(page, naa(5)))
        .or_else(|| find(page, kind(Kind::Naa)))
        .or_else(|| find(page, kind(Kind::Eui64)))
        .or_else(|| find(page, kind(Kind::T10Vendor)))
        .or_else(|| find(page, kind(Kind::VendorSpecific)))
        .map(|designator| UnitName {
            digit: match designator.kind {
                Kind::Naa => '3',
                Kind::Eui64 => '2',
                Kind::T10Vendor => '1',
                Kind::VendorSpecific | Kind::Other => '0',
            },
            prefix: match designator.kind {
                Kind::VendorSpecific => product.to_owned(),
                _ => String::new(),
            },
            text: if designator.is_text {
                String::from_utf8_lossy(designator.bytes).into_owned()
            } else {
                hexadecimal(designator.bytes)
            },
            is_naa: designator.kind == Kind::Naa,
            is_old: false,
        })
}

fn find<'a>(page: &'a [u8], wanted: impl Fn(&Designator<'a>) -> bool) -> Option<Designator<'a>> {
    let mut text = None;
    for designator in vpd::designators(page).filter(|d| d.names_unit && wanted(d)) {
        if designator.is_binary {
            return Some(designator);
        }
        if designator.is_text && text.is_none() {
            text = Some(designator);
        }
    }
    text
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    /// A SCSI disk ACME SUPER DISK with these VPD pages (0x80 and 0x83).
    fn scsi(page_80: &str, page_83: &str) -> DiskIdentity {
        let root = plant(
            &[
                "device/vendor = ACME    \\n",
                "device/model = SUPER DISK      \\n",
                "device/rev = 1.0 \\n",
                page_80,
                page_83,
            ]
            .join("\n"),
        );
        let query = DiskQuery::new(root.path(), "sda");
        identity(&root.path().join("device"), &query)
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    const SERIAL: &str = r"device/vpd_pg80 = \x00\x80\x00\x05SN 01";
    const NO_SERIAL: &str = "";

    #[test]
    fn extended_naa_name_is_split() {
        let disk = scsi(
            NO_SERIAL,
            r"device/vpd_pg83 = \x00\x83\x00\x14\x01\x03\x00\x10`\x05\x08\xb4\x00\x10^!\x00\x01\x02\x03\x04\x05\x06\x07",
        );
        assert_eq!(disk.serial, some("3600508b400105e210001020304050607"));
        assert_eq!(disk.wwn, some("0x600508b400105e21"));
        assert_eq!(disk.wwn_vendor_extension, some("0x0001020304050607"));
        assert_eq!(
            disk.reported_wwn(),
            some("0x600508b400105e210001020304050607")
        );
        assert_eq!(disk.vendor, some("ACME"));
        assert_eq!(disk.model, some("SUPER_DISK"));
        assert_eq!(disk.reported_model(), some("SUPER DISK"));
    }

    #[test]
    fn names_have_an_order() {
        let naa_3 = r"\x01\x03\x00\x08\x30\x00\x00\x00\x00\x00\x00\x03";
        let naa_5 = r"\x01\x03\x00\x08\x50\x00\x00\x00\x00\x00\x00\x05";
        let eui = r"\x01\x02\x00\x08\x00\x00\x00\x00\x00\x00\x00\xee";
        let t10 = r"\x02\x01\x00\x0aACME    T1";
        let own = r"\x02\x00\x00\x08VENDOR 1";
        let of_port = r"\x01\x13\x00\x08\x50\x00\x00\x00\x00\x00\x00\x99";
        for (names, serial) in [
            (
                vec![of_port, own, t10, eui, naa_3, naa_5],
                "35000000000000005",
            ),
            (vec![of_port, own, t10, eui, naa_3], "33000000000000003"),
            (vec![of_port, own, t10, eui], "200000000000000ee"),
            (vec![of_port, own, t10], "1ACME_T1"),
            (vec![of_port, own], "0ACME_SUPER_DISK_VENDOR_1"),
            (vec![of_port], "SACME_SUPER_DISK_SN_01"),
        ] {
            let names = names.concat();
            // The file has one byte where the text has an escape of four characters.
            let length = names.len() - 3 * names.matches(r"\x").count();
            let page = format!(r"device/vpd_pg83 = \x00\x83\x00\x{length:02x}{names}");
            let disk = scsi(SERIAL, &page);
            assert_eq!(disk.serial, some(serial));
            assert_eq!(disk.wwn.is_some(), serial.starts_with('3'), "{serial}");
            assert_eq!(
                disk.reported_serial(),
                match serial.starts_with('S') {
                    true => some("SN_01"),
                    false => some("SN 01"),
                }
            );
        }
    }

    #[test]
    fn without_pages_there_is_no_serial_number() {
        let disk = scsi("", "");
        assert_eq!(disk.serial, None);
        assert_eq!(disk.reported_serial(), None);
        assert_eq!(disk.revision, some("1.0"));
    }

    #[test]
    fn pages_from_before_spc_3_are_one_name_but_no_wwn() {
        let disk = scsi(
            NO_SERIAL,
            r"device/vpd_pg83 = \x00\x83\x00\x08\x20\x11\x22\x33\x44\x55\x66\x77",
        );
        assert_eq!(disk.serial, some("32011223344556677"));
        assert_eq!(disk.wwn, None);
    }
}
