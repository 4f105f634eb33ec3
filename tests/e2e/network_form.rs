//! An operator corrects the network of a host in the form on its screen.

use std::path::Path;
use std::time::Duration;

use landfall_tests::installation::{BOOT, deploy_and_boot};
use landfall_tests::peer::{Peer, host_ends, host_mac};
use landfall_tests::site::{Network, Plan};

use crate::host_test;

/// How long a busy machine may take to draw.
const DRAWING: Duration = Duration::from_secs(60);

/// The command line has VLAN 60, and the switch has VLAN 50.
#[test]
fn a_wrong_vlan_is_corrected_and_the_host_installs() {
    host_test(
        "a_wrong_vlan_is_corrected_and_the_host_installs",
        async |lab| {
            let _peer = Peer::vlan(lab).await?;
            let plan = Plan {
                network: Network::Given(
                    "vlan=enp0s3.60:enp0s3 ip=192.0.2.10::192.0.2.1:24::enp0s3.60:none",
                ),
                ..Plan::default()
            };
            let mut site = plan.site(lab).await?;
            site.machine.nics.clear();
            site.machine.cords = host_ends(1);
            site.script.macs = vec![host_mac(0)];
            let services = site.serve(lab).await?;
            let mut guest = site.power_on(lab).await?;
            guest.console("no answer from", BOOT).await?;
            let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/logs/form.png");
            guest.press(&["ret"]).await?;
            guest.until_screen(&picture, "[60]", DRAWING).await?;
            guest
                .press(&["down", "down", "down", "backspace", "backspace", "5", "0"])
                .await?;
            guest
                .until_screen(&picture, "vlan=vlan50:enp0s3", DRAWING)
                .await?;
            guest
                .press(&["ret", "ret", "ret", "ret", "ret", "ret"])
                .await?;
            let given = "the form on the console gives: vlan=vlan50:enp0s3 \
                     ip=192.0.2.10::192.0.2.1:24::vlan50:none";
            guest.console(given, DRAWING).await?;
            deploy_and_boot(lab, &plan, &site, &services, guest).await
        },
    );
}
