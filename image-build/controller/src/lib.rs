//! Turns `PreprovisioningImage` resources of metal3 into images of the image
//! service.
//!
//! The controller takes the place of OpenShift's image-customization-controller, and of
//! the controller that metal3's baremetal-operator runs by default. The contract is
//! that of baremetal-operator's `PreprovisioningImageReconciler`
//! (pkg/controllers/preprovisioningimage_controller.go).
//!
//! The data flows in one direction: watch events -> one resource, its Secret and
//! what this copy serves (`reconcile::View`) -> the next step (`reconcile`, pure) ->
//! its execution (`run`) -> the next view, until nothing is left to do. Every
//! step can be the last one before a crash: the next run starts from the resource.
//!
//! Several copies can run. All of them publish images; only the one that holds the
//! lease writes to Kubernetes (`leadership`).

mod claim;
pub mod command;
mod context;
mod controller;
mod health;
mod host;
mod images;
mod leadership;
mod network;
mod outcome;
mod own_writes;
mod reconcile;
mod resource;
mod retry;
mod run;
mod run_error;
mod served;
mod settings;
mod status;
mod watches;

pub use controller::Controller;
pub use images::Images;
pub use leadership::LeaseSettings;
pub use resource::{FINALIZER, PreprovisioningImage};
pub use retry::RetryLimits;
pub use settings::Settings;
