//! Reads and changes the UEFI variables of a machine that is off, in OVMF's file.
//!
//! The file is a firmware volume (PI 1.7, volume 3, 3.2.1) with one store of
//! authenticated variables (MdeModulePkg/Include/Guid/VariableFormat.h of EDK II).

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use uuid::Uuid;

use crate::vm::OVMF_VARIABLES;

/// The offset of the field of a firmware volume that holds the length of its
/// header.
const VOLUME_HEADER_LENGTH: usize = 0x30;
const STORE_HEADER: usize = 28;
const VARIABLE_HEADER: usize = 60;
const VARIABLE_START: [u8; 2] = [0xaa, 0x55];
/// The state of a valid variable (`VAR_ADDED`). A deleted variable has fewer
/// bits set.
const ADDED: u8 = 0x3f;
/// The attributes of the variables that [`UefiVariables::add`] writes: non-volatile,
/// with boot service access and runtime access.
const ATTRIBUTES: u32 = 7;

/// The content of the file, and the range of the variables in it.
pub struct UefiVariables {
    path: PathBuf,
    bytes: Vec<u8>,
    first: usize,
    end: usize,
}

struct Variable {
    name: String,
    is_valid: bool,
    next: usize,
}

impl UefiVariables {
    /// The empty variable store of a new machine. Nothing is written until
    /// [`Self::store`].
    pub fn new(path: &Path) -> Result<Self> {
        Self::parse(path, std::fs::read(OVMF_VARIABLES)?)
    }

    /// Reads the variables that a machine left in its file.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(path, std::fs::read(path)?)
    }

    fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self> {
        ensure!(bytes.get(0x28..0x2c) == Some(b"_FVH"), "no firmware volume");
        let store = usize::from(u16::from_le_bytes([
            bytes[VOLUME_HEADER_LENGTH],
            bytes[VOLUME_HEADER_LENGTH + 1],
        ]));
        let size = number(&bytes, store + 16);
        Ok(Self {
            path: path.to_owned(),
            first: store + STORE_HEADER,
            end: store + size,
            bytes,
        })
    }

    pub fn add(&mut self, name: &str, vendor: Uuid, value: &[u8]) -> Result<()> {
        let name: Vec<u8> = name
            .encode_utf16()
            .chain([0])
            .flat_map(u16::to_le_bytes)
            .collect();
        let mut variable = vec![VARIABLE_START[0], VARIABLE_START[1], ADDED, 0];
        variable.extend(ATTRIBUTES.to_le_bytes());
        // The fields of authenticated writes: counter, timestamp and key index.
        variable.resize(36, 0);
        variable.extend(u32::try_from(name.len())?.to_le_bytes());
        variable.extend(u32::try_from(value.len())?.to_le_bytes());
        variable.extend(vendor.to_bytes_le());
        variable.extend(name);
        variable.extend(value);
        let at = self.used_until();
        ensure!(at + variable.len() <= self.end, "the store is full");
        self.bytes[at..at + variable.len()].copy_from_slice(&variable);
        Ok(())
    }

    /// Adds variables until about `free` bytes are free.
    pub fn fill(&mut self, free: usize) -> Result<()> {
        const LARGEST: usize = 8 << 10;
        // The length of a name of one letter with its terminator.
        const NAME: usize = 4;
        let vendor = Uuid::new_v4();
        for letter in 'A'..='z' {
            let room = self.end - self.used_until();
            let Some(excess) = room.checked_sub(free + VARIABLE_HEADER + NAME) else {
                break;
            };
            self.add(&letter.to_string(), vendor, &vec![1; excess.min(LARGEST)])?;
        }
        Ok(())
    }

    /// The names of all variables that are not deleted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let valid = self.all().into_iter().filter(|variable| variable.is_valid);
        valid.map(|variable| variable.name).collect()
    }

    /// Writes the variables to the machine's file.
    pub fn store(&self) -> Result<()> {
        Ok(std::fs::write(&self.path, &self.bytes)?)
    }

    fn all(&self) -> Vec<Variable> {
        let mut found = Vec::new();
        let mut at = self.first;
        while self.bytes[at..].starts_with(&VARIABLE_START) {
            let (name_length, value_length) =
                (number(&self.bytes, at + 36), number(&self.bytes, at + 40));
            let name = &self.bytes[at + VARIABLE_HEADER..][..name_length];
            let name: Vec<u16> = name
                .chunks_exact(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .take_while(|&unit| unit != 0)
                .collect();
            let next = (at + VARIABLE_HEADER + name_length + value_length).next_multiple_of(4);
            found.push(Variable {
                name: String::from_utf16_lossy(&name),
                is_valid: self.bytes[at + 2] == ADDED,
                next,
            });
            at = next;
        }
        found
    }

    fn used_until(&self) -> usize {
        self.all()
            .last()
            .map_or(self.first, |variable| variable.next)
    }
}

fn number(bytes: &[u8], at: usize) -> usize {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value) as usize
}
