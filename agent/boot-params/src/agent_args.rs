//! All settings of the agent: Ironic's `ipa-*` arguments, the options that Ironic's
//! agent reads only from files, a few facts about the boot, and `landfall.*`.

mod assign;
mod command_line;
#[cfg(test)]
mod documentation;
mod files;
mod ignored;
mod listing;
mod names;
mod overrides;
mod table;

pub use files::MAX_PARAMETERS;
pub use ignored::{IGNORED, IgnoredSetting};
pub use listing::ListedSetting;
pub use names::Names;
pub use table::{BootParams, NAMES};

use crate::argument_value::ServiceUrls;
use crate::setting::Origin;

impl BootParams {
    /// True if the host booted from virtual media that Ironic attached.
    pub fn is_virtual_media(&self) -> bool {
        self.boot_method.as_deref() == Some("vmedia")
    }

    /// True if `ipa-debug` or `landfall.debug` asks for more logging.
    pub fn wants_debug(&self) -> bool {
        *self.debug || *self.landfall_debug
    }

    /// The URLs to which the agent posts the inventory: the URLs of
    /// `inspection_callback_url`. If that setting has no value but collectors are
    /// configured, the inspection API below each URL of `api_url`. `None` if there is no
    /// inspection.
    pub fn inspection_urls(&self) -> Option<ServiceUrls> {
        let given = self.inspection_callback_url.value.clone();
        given.or_else(|| match &self.api_url.value {
            Some(ServiceUrls::Urls(urls)) if !self.inspection_collectors.is_default() => {
                let inspection = |url: &String| format!("{url}/v1/continue_inspection");
                Some(ServiceUrls::Urls(urls.iter().map(inspection).collect()))
            }
            _ => None,
        })
    }

    /// Returns one warning for each unsupported setting that has a value. Skips settings
    /// from the lookup, since Ironic's answer contains every option.
    pub fn not_supported_yet(&self) -> Vec<String> {
        let settings = self.ignored.iter().zip(IGNORED);
        settings
            .filter(|(_, ignored)| ignored.instead.is_none())
            .filter(|(setting, _)| !matches!(setting.origin, Origin::Default | Origin::Lookup))
            .map(|(_, ignored)| format!("{}: not supported yet; ignored", ignored.names.shown()))
            .collect()
    }
}

/// The names of all settings except `BOOTIF`, including those without an effect.
fn all_names() -> impl Iterator<Item = &'static Names> {
    NAMES
        .iter()
        .chain(IGNORED.iter().map(|ignored| &ignored.names))
}

#[cfg(test)]
mod tests;
