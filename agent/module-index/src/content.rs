//! What an index says, as plain data.

/// One module file of the ramdisk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Normalised: `-` is `_`.
    pub name: String,
    /// Below `/lib/modules/<kernel release>/`, with its real file name.
    pub path: String,
    /// Names of the modules that must be loaded first, or this one has unresolved symbols.
    pub needs: Vec<String>,
    /// Names or aliases that should be loaded before; absence is no fault.
    pub softdeps_before: Vec<String>,
    /// Names or aliases that should be loaded afterwards; absence is no fault.
    pub softdeps_after: Vec<String>,
    /// Patterns of the modaliases and the other names (`fs-xfs`) that ask for this module.
    pub aliases: Vec<String>,
}

/// A module that is part of the kernel image: asking for it is asking for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuiltIn {
    /// Normalised: `-` is `_`.
    pub name: String,
    /// Names that softdeps may use for it (`crypto-crc32c`). Device patterns need not be listed.
    pub aliases: Vec<String>,
}

/// Everything that an index file holds.
///
/// The order of `modules` is kept: where several modules claim one device, they are
/// offered in this order. The kernel's link order (`modules.order`) is the right one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexContent {
    /// `uname -r` of the kernel that the modules belong to.
    pub kernel_release: String,
    /// In the order in which they are to be offered.
    pub modules: Vec<Module>,
    /// In any order.
    pub built_in: Vec<BuiltIn>,
}
