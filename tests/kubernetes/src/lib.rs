//! A real kube-apiserver with etcd, and what the tests of the controller need
//! around it.

mod api_server;
mod cluster;
mod crash;
pub mod fleet;
mod gate;
mod images;
mod intercept;
mod running_copy;

pub use api_server::{ApiServer, program};
pub use cluster::{Cluster, Conditions, NAMESPACE, manifests, rendered, wait_for};
pub use crash::{Crash, When};
pub use gate::{Gate, Seen};
pub use images::{ServedImages, base_iso};
pub use running_copy::RunningCopy;
