//! Ports of the lab's services that several modules know.

/// The port of the Redfish emulator, the emulator's own default.
pub const BMC_PORT: u16 = 8000;

/// The port of the image server with TLS.
pub const IMAGES_TLS_PORT: u16 = 8443;
