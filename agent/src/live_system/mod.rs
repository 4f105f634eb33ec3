//! The other home: a live system with systemd and NetworkManager, as CoreOS
//! has it. What our init and our own network code do in the ramdisk is asked
//! of its services here, over D-Bus.
//!
//! Behind the cargo feature `live-system`: the ramdisk's agent has nobody to
//! ask, and D-Bus would be a twelfth of it. Without the feature the type is
//! there, and no value of it.

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

pub use watchdog::{keep_watchdog, tell_ready};

#[cfg(feature = "live-system")]
pub use system::LiveSystem;

#[cfg(feature = "live-system")]
mod system {
    use landfall_network_plan::NetworkPlan;

    use super::bus::Bus;
    use super::{host_name, login, network_manager, service_manager};
    use crate::early::Ending;
    use crate::failure::Result;

    /// The services of the live system.
    #[derive(Debug, Clone)]
    pub struct LiveSystem(Bus);

    impl LiveSystem {
        /// Connects to the system's bus.
        ///
        /// # Errors
        /// If there is none.
        pub async fn connect() -> Result<Self> {
            Bus::connect().await.map(Self)
        }

        /// Calls the host so, now and after a restart of hostnamed.
        ///
        /// # Errors
        /// What hostnamed says.
        pub async fn set_host_name(&self, name: &str) -> Result<()> {
            host_name::set(&self.0, name).await
        }

        /// Has NetworkManager make the network what the plan says. Reports what
        /// becomes of each interface, and returns when the last is up or given
        /// up: NetworkManager itself goes on trying.
        pub async fn configure_network(&self, plan: &NetworkPlan) {
            network_manager::configure(&self.0, plan).await;
        }

        /// Starts a unit and waits for its end, however long it takes.
        ///
        /// # Errors
        /// If it does not start, or fails.
        pub async fn run_unit(&self, name: &str) -> Result<()> {
            service_manager::run_to_end(&self.0, name).await
        }

        /// Ends the boot by logind, or takes the machine off the network and
        /// leaves it running. Returns only if that fails.
        pub async fn end(&self, ending: Ending) {
            match ending {
                // Nothing is loaded here that could be started instead.
                Ending::Reboot | Ending::Kexec => login::end(&self.0, "Reboot").await,
                Ending::PowerOff => login::end(&self.0, "PowerOff").await,
                Ending::LockDown => match network_manager::disable(&self.0).await {
                    Ok(()) => {
                        tracing::warn!("locked down: only a reset by the BMC leads on");
                        std::future::pending().await
                    }
                    Err(error) => tracing::error!("switching NetworkManager off: {error}"),
                },
            }
        }
    }
}
