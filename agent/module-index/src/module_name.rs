//! Normalises module names, which have two spellings.

use std::borrow::Cow;

/// The name as the kernel knows it, with `_` instead of `-`.
///
/// Kbuild turns the dashes of a file name into underscores for `MODULE_NAME`.
/// `depends=` and `softdep=` are written by hand and mix both spellings. So every
/// comparison of names must use this function.
#[must_use]
pub fn normalise(name: &str) -> Cow<'_, str> {
    if name.contains('-') {
        Cow::Owned(name.replace('-', "_"))
    } else {
        Cow::Borrowed(name)
    }
}

/// An alias pattern with `_` instead of `-`, except inside brackets, where `-` means a
/// range.
///
/// modprobe has the same rule. With this rule a softdep `crypto-crc32c` matches both
/// `alias=crypto-crc32c` and `alias=crypto_crc32c`.
#[must_use]
pub fn normalise_alias(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains('-') {
        return Cow::Borrowed(pattern);
    }
    let mut in_brackets = false;
    let normal = pattern
        .chars()
        .map(|c| {
            match c {
                '[' => in_brackets = true,
                ']' => in_brackets = false,
                '-' if !in_brackets => return '_',
                _ => {}
            }
            c
        })
        .collect();
    Cow::Owned(normal)
}

/// The module name of a file name: `virtio-rng.ko.xz` is `virtio_rng`.
///
/// `None` if it is not the name of a module file.
#[must_use]
pub fn of_file(file_name: &str) -> Option<String> {
    let stem = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"]
        .iter()
        .find_map(|end| file_name.strip_suffix(end))?;
    (!stem.is_empty()).then(|| normalise(stem).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_become_underscores() {
        assert_eq!(normalise("xhci-pci"), "xhci_pci");
        assert_eq!(normalise("ext4"), "ext4");
    }

    #[test]
    fn ranges_in_brackets_keep_their_dash() {
        assert_eq!(normalise_alias("usb:v0[0-9]p-x"), "usb:v0[0-9]p_x");
        assert_eq!(normalise_alias("crypto-crc32c"), "crypto_crc32c");
    }

    #[test]
    fn file_names() {
        assert_eq!(of_file("virtio-rng.ko.xz").as_deref(), Some("virtio_rng"));
        assert_eq!(of_file("xfs.ko").as_deref(), Some("xfs"));
        assert_eq!(of_file("modules.builtin"), None);
        assert_eq!(of_file(".ko"), None);
    }
}
