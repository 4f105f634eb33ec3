//! The content of an index as plain data.

/// One module file of the ramdisk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Normalised: `_` instead of `-`.
    pub name: String,
    /// Path below `/lib/modules/<kernel release>/`, with the real file name.
    pub path: String,
    /// Names of the modules that must be loaded first, because this module uses their
    /// symbols.
    pub needs: Vec<String>,
    /// Names or aliases of modules to load before this module. It is no error if there is
    /// no such module.
    pub softdeps_before: Vec<String>,
    /// Names or aliases of modules to load after this module. It is no error if there is
    /// no such module.
    pub softdeps_after: Vec<String>,
    /// Patterns of the modaliases, and the other names (`fs-xfs`), that request
    /// this module.
    pub aliases: Vec<String>,
}

/// A module that is part of the kernel image, so there is nothing to load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuiltIn {
    /// Normalised: `_` instead of `-`.
    pub name: String,
    /// Names that softdeps may use for this module (`crypto-crc32c`). Device patterns may
    /// be omitted.
    pub aliases: Vec<String>,
}

/// The whole content of an index file.
///
/// The index keeps the order of `modules`: if several modules claim one device, it
/// returns them in this order. Use the kernel's link order (`modules.order`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexContent {
    /// `uname -r` of the kernel that the modules belong to.
    pub kernel_release: String,
    /// In the order in which the index offers them.
    pub modules: Vec<Module>,
    /// In any order.
    pub built_in: Vec<BuiltIn>,
}

/// Identifies a module of an [`IndexContent`]. The order of the ids is the order of the
/// modules in the index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(u32);

impl IndexContent {
    /// The modules, with their ids, in the order of the index.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the parser accepts 16384 modules at most"
    )]
    pub(crate) fn with_ids(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        let modules = self.modules.iter().enumerate();
        modules.map(|(number, module)| (ModuleId(number as u32), module))
    }

    /// # Panics
    /// If `id` comes from another content with more modules.
    pub(crate) fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.0 as usize]
    }
}
