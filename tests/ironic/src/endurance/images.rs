//! The images, and the faults of the image server.

use std::time::Duration;

use axum::body::Bytes;
use landfall_tests::image_server::{self, Behaviour, ServedFile};
use landfall_tests::lab::Family;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::cache::Cache;
use super::cast::{Part, Trouble};
use super::compressed_time::DAY;

/// In bytes. Small, because up to 240 agents write their image at the same time.
pub const SIZE: usize = 16 << 20;

/// How long the port of the image server is closed after a break.
pub const AWAY: Duration = Duration::from_secs(5);

/// A kernel and a ramdisk for Ironic's boot interface. Nothing boots them.
const KERNEL: &str = "endurance/vmlinuz";
const RAMDISK: &str = "endurance/initrd.img";

/// In bytes: the start of the image of the day. The server sends it at full speed, so
/// that it fills the agent's buffers before the test measures the agent's memory.
const FAST_START: usize = SIZE / 2;

/// The image that all agents have in a run with a [`Cache`].
pub const SHARED: &str = "endurance/shared.raw";

/// The image of the day.
const SLOW: &str = "endurance/slow.raw";

pub struct Images {
    good: Bytes,
    other: Bytes,
    /// Whether all nodes have [`SHARED`], and fetch it through the [`Cache`].
    cached: bool,
}

impl Images {
    #[must_use]
    pub fn make(cached: bool) -> Self {
        Self {
            cached,
            good: image(1),
            other: image(2),
        }
    }

    /// The expected start of the disk of an active node.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.good
    }

    /// All files of the server.
    #[must_use]
    pub fn files(&self, cast: &[Part]) -> Vec<ServedFile> {
        let whole = |name: &str, content: Bytes| ServedFile {
            name: name.to_owned(),
            content,
            behaviour: Behaviour::default(),
        };
        let boot = |name: &str| whole(name, Bytes::from_static(b"not booted"));
        let slow = ServedFile {
            name: SLOW.to_owned(),
            content: self.good.clone(),
            behaviour: Behaviour {
                bytes_per_second: Some((SIZE - FAST_START) as u64 / (2 * DAY.as_secs())),
                fast_start: FAST_START,
                ..Behaviour::default()
            },
        };
        let shared = whole(SHARED, self.good.clone());
        let mut all = vec![boot(KERNEL), boot(RAMDISK), slow, shared];
        all.extend(cast.iter().map(|part| ServedFile {
            name: name(part),
            content: match part.trouble {
                Trouble::WrongBytes => self.other.clone(),
                _ => self.good.clone(),
            },
            behaviour: behaviour(part.trouble),
        }));
        all
    }

    /// The `driver_info` of each node.
    #[must_use]
    pub fn driver_info(&self) -> Value {
        let url = |name: &str| image_server::url(Family::V4, name);
        let mut info = json!({
            "deploy_kernel": url(KERNEL),
            "deploy_ramdisk": url(RAMDISK),
        });
        if self.cached {
            info["image_http_proxy"] = json!(Cache::url());
        }
        info
    }

    /// The `instance_info` of the node.
    #[must_use]
    pub fn instance_info(&self, part: &Part) -> Value {
        match self.cached {
            true => self.info(SHARED),
            false => self.info(&name(part)),
        }
    }

    /// The `instance_info` for an image that takes longer than the day.
    #[must_use]
    pub fn slow_instance_info(&self) -> Value {
        self.info(SLOW)
    }

    fn info(&self, name: &str) -> Value {
        let digest = Sha256::digest(&self.good);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "image_source": image_server::url(Family::V4, name),
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": digest,
            "image_disk_format": "raw",
            "image_type": "whole-disk",
        })
    }
}

fn name(part: &Part) -> String {
    format!("endurance/{}.raw", part.name())
}

fn behaviour(trouble: Trouble) -> Behaviour {
    let middle = Some(SIZE / 2);
    match trouble {
        Trouble::None | Trouble::WrongBytes | Trouble::FullDisk | Trouble::LargeImage => {
            Behaviour::default()
        }
        Trouble::ServerDiesOnce => Behaviour {
            dies_after: middle,
            stays_dark: AWAY,
            ..Behaviour::default()
        },
        Trouble::ServerStallsOnce => Behaviour {
            dies_after: middle,
            stalls: true,
            ..Behaviour::default()
        },
        Trouble::ImageGone => Behaviour {
            dies_after: middle,
            gone_after: true,
            ..Behaviour::default()
        },
    }
}

/// The first sector of the partition in the images.
const FIRST_PARTITION: u32 = 2048;

/// Bytes that cannot be compressed, with an MBR of one partition.
fn image(seed: u64) -> Bytes {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(SIZE);
    while bytes.len() < SIZE {
        // The linear congruential generator of Knuth's MMIX. Its upper half is random
        // enough.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&((state >> 32) as u32).to_le_bytes());
    }
    let sectors = SIZE as u32 / 512 - FIRST_PARTITION;
    bytes[446..512].fill(0);
    // An entry of an MBR: type Linux, first sector, number of sectors.
    bytes[450] = 0x83;
    bytes[454..458].copy_from_slice(&FIRST_PARTITION.to_le_bytes());
    bytes[458..462].copy_from_slice(&sectors.to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    Bytes::from(bytes)
}
