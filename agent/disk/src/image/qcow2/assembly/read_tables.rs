//! Reads the tables and notes their content as extents.

use landfall_report::failure::Result;

use super::{Assembly, HEAD_END, beyond, invalid};
use crate::image::qcow2::extents::{Extent, Role};
use crate::image::qcow2::header::u64_at;
use crate::image::qcow2::tables::{Cluster, l1_entry, l2_entry};

impl Assembly {
    /// Reads that part of a table which is in the window.
    pub(super) fn read_table(&mut self, table: Extent) -> Result<()> {
        let bytes = self.window.part(table.host, table.len).to_vec();
        let entry_len = match table.role {
            Role::L1 => 8,
            _ => self.header.l2_entry_len(),
        };
        // The L1 table may use only half of the room for extents, so that its L2 tables
        // have room for their extents.
        let most = match table.role {
            Role::L1 => self.room / 2,
            _ => self.room,
        };
        let mut used = 0;
        let mut run = None;
        for entry in bytes.chunks_exact(entry_len as usize) {
            if self.noted() + 2 > most {
                break;
            }
            let guest = self.scale.rest(&table, used).guest;
            used += entry_len;
            if table.role == Role::L1 {
                self.note_table(u64_at(entry, 0), guest)?;
            } else {
                let bitmap = entry.get(8..16).map_or(0, |half| u64_at(half, 0));
                self.note_cluster(u64_at(entry, 0), bitmap, guest, &mut run)?;
            }
        }
        if let Some(run) = run {
            self.note_data(run)?;
        }
        self.window.mark_used(table.host, used);
        self.progress |= used > 0;
        let unread = bytes.len() as u64 - used;
        if (1..entry_len).contains(&unread) {
            // Only the last piece of a file can end within an entry.
            let file_end = table.host + bytes.len() as u64;
            return Err(beyond(table.host + table.len, file_end));
        }
        if unread > 0 {
            self.later.push(self.scale.rest(&table, used));
            return Ok(());
        }
        self.put_back_rest(table, used)
    }

    fn note_table(&mut self, entry: u64, guest: u64) -> Result<()> {
        if let Some(host) = l1_entry(&self.header, entry).map_err(invalid)? {
            let clusters = (self.header.size - guest).div_ceil(self.header.cluster_size());
            let needed = clusters * self.header.l2_entry_len();
            self.note(Extent {
                host,
                guest,
                len: needed.min(self.header.cluster_size()),
                role: Role::L2,
            })?;
        }
        Ok(())
    }

    fn note_cluster(
        &mut self,
        entry: u64,
        bitmap: u64,
        guest: u64,
        run: &mut Option<Extent>,
    ) -> Result<()> {
        match l2_entry(&self.header, entry, bitmap).map_err(invalid)? {
            Cluster::Zeros => {}
            Cluster::Compressed { host, len } => {
                let cluster = |role| Extent {
                    host,
                    guest,
                    len,
                    role,
                };
                if guest < HEAD_END {
                    self.note(cluster(Role::HeadPacked))?;
                }
                if guest + self.header.cluster_size() > HEAD_END {
                    self.note(cluster(Role::Packed))?;
                }
            }
            Cluster::Plain { host, present } => {
                // A cluster may end behind the end of the file, but must not begin
                // there.
                self.check_place(host)?;
                let unit = self.header.allocation_unit();
                let units = self.header.cluster_size() / unit;
                let mut index = 0;
                while index < units {
                    let rest = present >> index;
                    let skipped = u64::from(rest.trailing_zeros()).min(units - index);
                    let present = u64::from((rest >> skipped.min(31)).trailing_ones());
                    index += skipped;
                    // Without subclusters all bits of `present` are set.
                    let count = present.min(units - index);
                    if count > 0 {
                        self.join(run, host + index * unit, guest + index * unit, count * unit)?;
                    }
                    index += count;
                }
            }
        }
        Ok(())
    }

    /// Appends data to the current run, or starts a new run.
    fn join(&mut self, run: &mut Option<Extent>, host: u64, guest: u64, len: u64) -> Result<()> {
        let next = Extent {
            host,
            guest,
            // The last cluster may extend beyond the end of the disk.
            len: len.min(self.header.size.saturating_sub(guest)),
            role: Role::Data,
        };
        match run {
            Some(known) if known.is_followed_by(&next) => known.len += next.len,
            _ => {
                if let Some(known) = run.replace(next) {
                    self.note_data(known)?;
                }
            }
        }
        Ok(())
    }

    /// Queues data, split at [`HEAD_END`], because the first MiB is held back.
    fn note_data(&mut self, data: Extent) -> Result<()> {
        let in_head = HEAD_END.saturating_sub(data.guest).min(data.len);
        if in_head > 0 {
            self.note(Extent {
                len: in_head,
                role: Role::HeadData,
                ..data
            })?;
        }
        if data.len > in_head {
            self.note(self.scale.rest(&data, in_head))?;
        }
        Ok(())
    }

    pub(super) fn note(&mut self, extent: Extent) -> Result<()> {
        match extent.role {
            Role::L1 | Role::L2 => self.check_place(extent.host + extent.len - 1)?,
            Role::HeadPacked | Role::Packed => self.check_place(extent.host)?,
            // `note_cluster` has checked each cluster.
            Role::HeadData | Role::Data => {}
        }
        self.queue(extent);
        Ok(())
    }
}
