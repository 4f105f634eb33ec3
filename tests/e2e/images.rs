//! Tests image formats that the tests of the boot methods leave out, and
//! SHA-512.

use landfall_tests::artifacts::Packing;
use landfall_tests::installation::{deploy_and_boot, install};
use landfall_tests::site::{Deploy, Plan};

use crate::host_test;

#[test]
fn write_image_raw() {
    host_test("write_image_raw", async |lab| {
        let plan = Plan {
            packing: Packing::Raw,
            deploy: Deploy::WriteImage,
            ..Plan::default()
        };
        install(lab, plan).await
    });
}

#[test]
#[ignore = "as write_image_raw"]
fn write_image_zst_by_sha512() {
    host_test("write_image_zst_by_sha512", async |lab| {
        let plan = Plan {
            packing: Packing::Zst,
            deploy: Deploy::WriteImage,
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.script.image.hash_algorithm = "sha512";
        site.script.image.hash = site.files[0].sha512();
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        deploy_and_boot(lab, &plan, &site, &services, guest).await
    });
}
