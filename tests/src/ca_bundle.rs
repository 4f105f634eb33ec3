//! `ipa-cacert-bundle`: the certificate authority as a second initrd, as metal3's image
//! makes it (`scripts/tls-common.sh` of ironic-image).

/// The files of the bundle, with their paths in the ramdisk. `pem` is the certificate of
/// the authority.
#[must_use]
pub fn files(pem: &str) -> Vec<(&'static str, Vec<u8>)> {
    let conf = "[DEFAULT]\ncafile = /etc/ironic-python-agent/ironic.crt\n";
    vec![
        ("etc/ironic-python-agent.d/ironic-tls.conf", conf.into()),
        ("etc/ironic-python-agent/ironic.crt", pem.into()),
    ]
}
