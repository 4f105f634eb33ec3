//! Rejects partition images: this agent only writes images of whole disks and makes
//! no partitions or file systems.

use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use super::node::Node;

/// The error for a partition image. Setting another `image_type` would not help, because
/// the image has no partition table and no boot loader.
pub(super) fn refusal(image: &str) -> Failure {
    Failure::invalid_params(format!(
        "{image} is a partition image, expected a whole-disk image: this agent does not support partition images"
    ))
    .hint(
        "set image_source to a whole-disk image (with partition table and boot loader) and remove image_type, kernel and ramdisk from instance_info, or use another deploy_ramdisk",
    )
}

/// Rejects a node for which Ironic will deploy a partition image. Ironic sends the node
/// before the first step. Without this check only the step `write_image` would fail,
/// after other deploy steps have run.
///
/// # Errors
/// If Ironic would deploy a partition image; see [`refusal`].
pub(super) fn refuse_in(node: &Node) -> Result<()> {
    // Other deploy interfaces do not write the image on their own.
    let writes_image = node.0.get("deploy_interface") == Some(&Value::from("direct"));
    let is_partition = node.driver_info("is_whole_disk_image") == Some(&Value::Bool(false));
    if writes_image && is_partition {
        let image = node.instance_info("image_source").and_then(Value::as_str);
        return Err(refusal(image.unwrap_or("the image")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_node_that_gets_a_partition_image_is_refused() {
        for (interface, whole_disk, refused) in [
            ("direct", json!(false), true),
            ("direct", json!(true), false),
            // Ironic could not find out the type of the image.
            ("direct", json!(null), false),
            ("custom-agent", json!(false), false),
        ] {
            let node = Node(json!({
                "deploy_interface": interface,
                "driver_internal_info": {"is_whole_disk_image": whole_disk},
                "instance_info": {"image_source": "http://192.0.2.1/root.img"},
            }));
            let found = refuse_in(&node);
            assert_eq!(found.is_err(), refused, "{}: {found:?}", node.0);
        }
    }

    #[test]
    fn the_advice_is_not_to_set_another_type() {
        let text = refusal("http://192.0.2.1/root.img").to_string();
        assert!(!text.contains("whole-disk in instance_info"), "{text}");
        assert!(
            text.contains("does not support partition images")
                && text.contains("remove image_type, kernel and ramdisk"),
            "{text}"
        );
    }
}
