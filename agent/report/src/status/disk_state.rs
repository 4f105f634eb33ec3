//! Whether the agent writes or has written a disk. From the first write on, an operator
//! must not start the agent again with another network.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::update;

/// How many [`DiskChange`] are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskState {
    /// The agent writes an image, or changes it on the disk. The disk does not boot.
    Writing,
    /// The image is complete.
    Complete,
}

/// Exists from the first write to a disk until its image is complete. If it is dropped
/// before [`Self::complete`], the write has failed.
#[derive(Debug)]
#[must_use = "the state of the disk is forgotten when this is dropped"]
pub struct DiskChange(());

impl DiskChange {
    pub fn begin() -> Self {
        update(|status| {
            OPEN.fetch_add(1, Ordering::Relaxed);
            status.disk_state = Some(DiskState::Writing);
        });
        Self(())
    }

    /// Records that the disk has its image.
    pub fn complete(self) {
        // Do not drop `self`: `drop` would end the change a second time.
        ManuallyDrop::new(self).end(Some(DiskState::Complete));
    }

    fn end(&self, state: Option<DiskState>) {
        update(|status| {
            // An image may still be written to another disk.
            if OPEN.fetch_sub(1, Ordering::Relaxed) == 1 {
                status.disk_state = state;
            }
        });
    }
}

impl Drop for DiskChange {
    fn drop(&mut self) {
        self.end(None);
    }
}

/// Records that a disk already has its image. An agent calls this if it was restarted
/// after the write.
pub fn report_complete_disk() {
    update(|status| {
        if OPEN.load(Ordering::Relaxed) == 0 {
            status.disk_state = Some(DiskState::Complete);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::now;

    #[test]
    fn a_disk_is_being_written_until_it_is_complete_or_the_attempt_fails() {
        let failed = DiskChange::begin();
        assert_eq!(now().disk_state, Some(DiskState::Writing));
        drop(failed);
        assert_eq!(now().disk_state, None);

        let (first, second) = (DiskChange::begin(), DiskChange::begin());
        first.complete();
        assert_eq!(now().disk_state, Some(DiskState::Writing));
        second.complete();
        assert_eq!(now().disk_state, Some(DiskState::Complete));
    }
}
