//! The chosen disk, and for each other disk the reason why it was not chosen.

use landfall_report::status::RejectedDisk;

use crate::hint_candidate::GIB;
use crate::report_types::Disk;

/// The result of [`super::choose`].
#[derive(Debug, Clone)]
pub struct Choice<'a> {
    pub disk: &'a Disk,
    /// All other disks in the order of the list, each with the reason against it.
    pub rejected: Vec<RejectedDisk>,
}

impl<'a> Choice<'a> {
    /// Chooses the first disk that matches the hints. `losses` contains the reasons
    /// against the disks before it.
    pub(super) fn first_match(disks: &'a [Disk], index: usize, losses: &[Option<String>]) -> Self {
        Self::of(disks, index, losses, |chosen, _| {
            format!("not compared, because {chosen} matches and comes first")
        })
    }

    /// Chooses the smallest disk. `losses` contains the reasons against disks that are
    /// excluded.
    pub(super) fn smallest(disks: &'a [Disk], index: usize, losses: &[Option<String>]) -> Self {
        let size = disks[index].size;
        let gib = |size: u64| size as f64 / GIB;
        Self::of(disks, index, losses, |chosen, other| {
            if other.size == size {
                return format!(
                    "{:.1} GiB, as much as {chosen}, whose name comes first",
                    gib(size)
                );
            }
            format!(
                "{:.1} GiB is more than the {:.1} GiB of {chosen}",
                gib(other.size),
                gib(size)
            )
        })
    }

    fn of(
        disks: &'a [Disk],
        index: usize,
        losses: &[Option<String>],
        otherwise: impl Fn(&str, &Disk) -> String,
    ) -> Self {
        let disk = &disks[index];
        let others = { disks.iter().enumerate() }.filter(|(number, _)| *number != index);
        let rejected = others.map(|(number, other)| RejectedDisk {
            path: other.name.clone(),
            why: { losses.get(number).cloned().flatten() }
                .unwrap_or_else(|| otherwise(&disk.name, other)),
        });
        Self {
            disk,
            rejected: rejected.collect(),
        }
    }
}
