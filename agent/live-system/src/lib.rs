//! Runs the agent in a live system with systemd and NetworkManager, such as CoreOS. In
//! the ramdisk, Landfall's own init and network code do this work. In a live system, the
//! agent calls the services of that system over D-Bus.
//!
//! Only `LiveSystem` needs the cargo feature `live-system`. The ramdisk has no D-Bus
//! services, and D-Bus would take a twelfth of the agent's size. Without the feature the
//! type `LiveSystem` exists, but it has no value.

#[cfg(feature = "live-system")]
mod active_connection;
#[cfg(feature = "live-system")]
mod bus;
#[cfg(feature = "live-system")]
mod host_name;
#[cfg(feature = "live-system")]
mod login;
#[cfg(feature = "live-system")]
mod network_manager;
#[cfg(feature = "live-system")]
mod service_manager;
mod watchdog;
#[cfg(not(feature = "live-system"))]
mod without;

#[cfg(not(feature = "live-system"))]
pub use without::LiveSystem;

pub use watchdog::{keep_watchdog, report_ready};

#[cfg(feature = "live-system")]
pub use system::LiveSystem;

#[cfg(feature = "live-system")]
mod system {
    use landfall_init::Ending;
    use landfall_network_plan::NetworkPlan;
    use landfall_report::failure::Result;

    use super::bus::Bus;
    use super::{host_name, login, network_manager, service_manager};

    /// The services of the live system.
    #[derive(Debug, Clone)]
    pub struct LiveSystem(Bus);

    impl LiveSystem {
        /// Connects to the system's bus. Fails if there is none.
        pub async fn connect() -> Result<Self> {
            Bus::connect().await.map(Self)
        }

        /// Sets the host name, also for later restarts of hostnamed.
        pub async fn set_host_name(&self, name: &str) -> Result<()> {
            host_name::set(&self.0, name).await
        }

        /// Makes NetworkManager apply the plan, and reports the result of each interface.
        /// Returns when each interface is activated, has failed, or has reached the time
        /// limit. NetworkManager itself continues to retry.
        pub async fn configure_network(&self, plan: &NetworkPlan) {
            network_manager::configure(&self.0, plan).await;
        }

        /// Starts a unit and waits for its end without a time limit. Fails if the unit
        /// does not start, or if it ends with an error.
        pub async fn run_unit(&self, name: &str) -> Result<()> {
            service_manager::run_to_end(&self.0, name).await
        }

        /// Ends the boot through logind; for a lock-down, takes the machine off the
        /// network and leaves it on. Returns only if that fails.
        pub async fn end(&self, ending: Ending) {
            match ending {
                // No kernel is loaded for kexec in a live system, so reboot instead.
                Ending::Reboot | Ending::Kexec => login::end(&self.0, "Reboot").await,
                Ending::PowerOff => login::end(&self.0, "PowerOff").await,
                Ending::LockDown => match network_manager::disable(&self.0).await {
                    Ok(()) => {
                        tracing::warn!(
                            "locked down: reset the machine through its BMC to continue"
                        );
                        std::future::pending().await
                    }
                    Err(error) => tracing::error!("cannot switch NetworkManager off: {error}"),
                },
            }
        }
    }
}
