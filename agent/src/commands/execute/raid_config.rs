//! Reads `target_raid_config` of a node: the software RAID volumes that it should have.

use std::collections::BTreeSet;

use landfall_disk::software_raid::layout::Share;
use landfall_disk::software_raid::member::Level;
use landfall_disk::software_raid::system_partitions::NAME as ESP_ARRAY;
use landfall_inventory::root_device_hints::RootDeviceHints;
use landfall_report::failure::{Class, Failure, Result};
use serde_json::Value;

/// The configuration gives the sizes of volumes in GiB.
const GIB: u64 = 1 << 30;
/// In bytes: the size of the name field in a superblock.
const LONGEST_NAME: usize = 32;
/// Ironic's limits.
const MOST_VOLUMES: usize = 2;
const FEWEST_DISKS: usize = 2;

const HINT: &str = "correct target_raid_config of the node";

/// The software RAID volumes of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RaidConfig {
    pub volumes: Vec<WantedVolume>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedVolume {
    /// `volume_name`, or else `md` and the number of the volume (from 0), as with
    /// Ironic's agent.
    pub name: String,
    pub level: Level,
    pub share: Share,
    /// `is_root_volume`
    pub is_root: Option<bool>,
    /// `physical_disks`: one entry for each disk. Empty for all disks.
    pub disks: Vec<RootDeviceHints>,
}

impl RaidConfig {
    /// Reads the configuration. `None` if it has no software RAID.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn parse(config: &Value) -> Result<Option<Self>> {
        let Some(items) = config["logical_disks"].as_array() else {
            return Ok(None);
        };
        let is_software = |item: &&Value| item["controller"] == "software";
        let count = items.iter().filter(is_software).count();
        if count == 0 {
            return Ok(None);
        }
        if count < items.len() {
            return Err(invalid(
                "expected all volumes with the controller \"software\", or none",
            ));
        }
        if items.len() > MOST_VOLUMES {
            return Err(invalid(&format!(
                "expected one or two volumes, found {}",
                items.len()
            )));
        }
        let volumes = items.iter().enumerate();
        let volumes = volumes.map(|(index, item)| WantedVolume::parse(index, item));
        let volumes: Vec<WantedVolume> = volumes.collect::<Result<_>>()?;
        check_together(&volumes)?;
        Ok(Some(Self { volumes }))
    }

    /// The software RAID configuration of a node: `target_raid_config`, or else
    /// `raid_config`. An invalid configuration counts as none, because the step that
    /// creates the volumes has already reported it.
    pub fn of_node(node: &Value) -> Option<Self> {
        let configs = ["target_raid_config", "raid_config"].into_iter();
        let mut configs = configs.filter_map(|key| node.get(key));
        configs.find_map(|config| Self::parse(config).ok().flatten())
    }

    /// Whether a node has software RAID in its configuration, valid or not. A
    /// configuration that is invalid for this agent may be valid for another agent, which
    /// may have created the volumes.
    pub fn is_in(node: &Value) -> bool {
        let configs = ["target_raid_config", "raid_config"].into_iter();
        configs
            .filter_map(|key| node[key]["logical_disks"].as_array())
            .flatten()
            .any(|item| item["controller"] == "software")
    }

    /// The name of the volume for the image, if the configuration says which one it is.
    pub fn root_volume(&self) -> Option<&str> {
        let root = self.volumes.iter().find(|it| it.is_root == Some(true))?;
        Some(&root.name)
    }

    /// The names of the volumes that must not get the image.
    pub fn data_volumes(&self) -> Vec<String> {
        let volumes = self.volumes.iter();
        let data = volumes.filter(|volume| volume.is_root == Some(false));
        data.map(|volume| volume.name.clone()).collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.volumes.iter().map(|it| it.name.clone()).collect()
    }
}

impl WantedVolume {
    fn parse(index: usize, item: &Value) -> Result<Self> {
        let name = match &item["volume_name"] {
            Value::Null => format!("md{index}"),
            Value::String(name) if name == ESP_ARRAY => {
                return Err(invalid(&format!(
                    "volume_name: expected another name than {ESP_ARRAY}, which is that of the copies of the EFI system partition"
                )));
            }
            Value::String(name) if is_name(name) => name.clone(),
            found => {
                return Err(invalid(&format!(
                    "volume_name: expected a text of 1 to {LONGEST_NAME} letters, digits, '.', '-' and '_', found {found}"
                )));
            }
        };
        let level = { item["raid_level"].as_str() }
            .and_then(Level::by_name)
            .filter(|level| index > 0 || *level == Level::Raid1);
        let level = level.ok_or_else(|| {
            let expected = match index {
                0 => "\"1\" for the first volume",
                _ => "\"0\", \"1\", \"1+0\", \"5\" or \"6\" for the second volume",
            };
            invalid(&format!(
                "raid_level: expected {expected}, found {}",
                item["raid_level"]
            ))
        })?;
        let share = match &item["size_gb"] {
            Value::String(text) if text == "MAX" => Share::Rest,
            size => match size.as_u64().and_then(|gib| gib.checked_mul(GIB)) {
                Some(bytes) if bytes > 0 => Share::Fixed(bytes),
                _ => {
                    return Err(invalid(&format!(
                        "size_gb: expected a number of GiB or \"MAX\", found {size}"
                    )));
                }
            },
        };
        let disks = match &item["physical_disks"] {
            Value::Null => Vec::new(),
            disks => physical_disks(disks, level)?,
        };
        Ok(Self {
            name,
            level,
            share,
            is_root: item["is_root_volume"].as_bool(),
            disks,
        })
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits)
}

fn physical_disks(disks: &Value, level: Level) -> Result<Vec<RootDeviceHints>> {
    let fewest = level.fewest_disks().max(FEWEST_DISKS);
    let Some(disks) = disks.as_array().filter(|disks| disks.len() >= fewest) else {
        return Err(invalid(&format!(
            "physical_disks: expected a list of at least {fewest} hints, found {disks}"
        )));
    };
    let hints = disks.iter().map(|entry| {
        let hints = RootDeviceHints::parse(entry)
            .map_err(|error| invalid(&format!("physical_disks: {}", error.message)))?;
        hints.ok_or_else(|| invalid("physical_disks: expected hints, found an empty entry"))
    });
    hints.collect()
}

fn check_together(volumes: &[WantedVolume]) -> Result<()> {
    let names: BTreeSet<&str> = volumes.iter().map(|it| &*it.name).collect();
    if names.len() < volumes.len() {
        return Err(invalid("volume_name: expected different names"));
    }
    if volumes.iter().filter(|it| it.share == Share::Rest).count() > 1 {
        return Err(invalid("size_gb: expected \"MAX\" for at most one volume"));
    }
    let roots = volumes.iter().filter(|it| it.is_root == Some(true));
    if roots.count() > 1 {
        return Err(invalid(
            "is_root_volume: expected true for at most one volume",
        ));
    }
    Ok(())
}

fn invalid(text: &str) -> Failure {
    let details = format!("the software RAID configuration is not valid: {text}");
    Failure::new(Class::SoftwareRaidError, details).hint(HINT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first() -> Value {
        json!({"size_gb": 100, "raid_level": "1", "controller": "software"})
    }

    fn parse(disks: Value) -> Result<Option<RaidConfig>> {
        RaidConfig::parse(&json!({ "logical_disks": disks }))
    }

    #[test]
    fn volumes_are_ironics() {
        let config = parse(json!([
            {
                "size_gb": 100, "raid_level": "1", "controller": "software",
                "volume_name": "root", "is_root_volume": true,
                "physical_disks": [{"size": ">= 100"}, {"serial": "s== A"}],
            },
            {"size_gb": "MAX", "raid_level": "1+0", "controller": "software"},
        ]));
        let config = config.unwrap().unwrap();
        assert_eq!(config.names(), ["root", "md1"]);
        assert_eq!(config.root_volume(), Some("root"));
        assert!(config.data_volumes().is_empty());
        let [root, data] = &config.volumes[..] else {
            panic!("{config:?}");
        };
        assert_eq!(
            (root.level, root.share),
            (Level::Raid1, Share::Fixed(100 * GIB))
        );
        assert_eq!((root.disks.len(), data.disks.len()), (2, 0));
        assert_eq!((data.level, data.share), (Level::Raid10, Share::Rest));
        let node = json!({"target_raid_config": {}, "raid_config": {"logical_disks": [first()]}});
        assert_eq!(RaidConfig::of_node(&node).unwrap().names(), ["md0"]);
    }

    #[test]
    fn without_software_raid_there_is_none() {
        for config in [
            json!(null),
            json!({}),
            json!({"logical_disks": []}),
            json!({"logical_disks": [{"size_gb": 1, "raid_level": "5", "controller": "HW"}]}),
        ] {
            assert_eq!(RaidConfig::parse(&config).unwrap(), None, "{config}");
            assert!(!RaidConfig::is_in(&json!({"raid_config": config})));
        }
    }

    #[test]
    fn volumes_of_another_agent_are_software_raid_too() {
        let config = json!({"logical_disks": [{"raid_level": "0", "controller": "software"}]});
        for key in ["target_raid_config", "raid_config"] {
            let node = json!({key: config});
            assert_eq!(RaidConfig::of_node(&node), None, "{key}");
            assert!(RaidConfig::is_in(&node), "{key}");
        }
        assert!(!RaidConfig::is_in(&json!({})));
    }

    #[test]
    fn invalid_disks_are_rejected_with_the_reason() {
        let with = |key: &str, value: Value| {
            let mut disk = first();
            disk[key] = value;
            disk
        };
        for (disks, expected) in [
            (
                json!([with("raid_level", json!("5"))]),
                "raid_level: expected \"1\" for the first",
            ),
            (
                json!([first(), with("raid_level", json!("4"))]),
                "for the second volume, found \"4\"",
            ),
            (
                json!([first(), first(), first()]),
                "one or two volumes, found 3",
            ),
            (
                json!([first(), {"controller": "HW"}]),
                "all volumes with the controller",
            ),
            (
                json!([with("size_gb", json!("10"))]),
                "size_gb: expected a number",
            ),
            (
                json!([with("size_gb", json!(0))]),
                "size_gb: expected a number",
            ),
            (
                json!([with("volume_name", json!("a b"))]),
                "volume_name: expected a text",
            ),
            (
                json!([with("volume_name", json!("esp"))]),
                "expected another name than esp",
            ),
            (
                json!([with("volume_name", json!("md1")), first()]),
                "different names",
            ),
            (
                json!([with("physical_disks", json!([{"size": 1}]))]),
                "at least 2 hints",
            ),
            (
                json!([with("physical_disks", json!([{"size": 1}, {"colour": 1}]))]),
                "colour",
            ),
            (
                json!([with("size_gb", json!("MAX")), with("size_gb", json!("MAX"))]),
                "\"MAX\" for at most one volume",
            ),
        ] {
            let failure = parse(disks.clone()).unwrap_err();
            assert_eq!(failure.class, Class::SoftwareRaidError);
            assert!(failure.details.contains(expected), "{disks}: {failure}");
        }
    }
}
