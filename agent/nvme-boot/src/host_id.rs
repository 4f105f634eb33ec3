//! The host ID of a connection, also for a table without one.
//!
//! Without the option `hostid` the kernel uses the ID of its own default host. Since
//! Linux 6.5 the kernel then returns EINVAL, because one host ID must not have two host
//! NQNs ("nvme-fabrics: prevent overriding of existing host", ae8bd606e09b).

use uuid::Uuid;

use crate::nbft::Host;
use crate::tables::FirmwareTable;

/// The prefix of a host NQN that contains a UUID (NVM Express Base Specification, "NVMe
/// Qualified Names").
const OF_UUID: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// The host ID of the table. If the table has none, the first of these that exists:
///
/// * the host ID of another table with the same host NQN, because the kernel also does
///   not permit two host IDs for one host NQN;
/// * the UUID in the host NQN, as in libnvme (`nvmf_hostid_from_hostnqn`), which the
///   installed system uses to connect;
/// * a UUID that is always the same for this host NQN.
pub(crate) fn host_id(host: &Host, tables: &[FirmwareTable]) -> Uuid {
    let mut others = tables.iter().map(|table| &table.content.host);
    let of_another = || others.find_map(|other| other.id.filter(|_| other.nqn == host.nqn));
    host.id
        .or_else(of_another)
        .or_else(|| host.nqn.strip_prefix(OF_UUID)?.parse().ok())
        .unwrap_or_else(|| Uuid::new_v5(&Uuid::NAMESPACE_OID, host.nqn.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbft::Nbft;
    use crate::nbft::fixtures::{HOST_ID, HOST_NQN, Nic, table};

    fn host(nqn: &str, id: Option<&str>) -> Host {
        Host {
            nqn: nqn.to_owned(),
            id: id.map(|id| id.parse().unwrap()),
        }
    }

    #[test]
    fn a_host_has_an_id_even_if_the_table_has_none() {
        const IN_NQN: &str = "d6f07002-7eb5-4841-a185-400e296afae4";
        const OTHER: &str = "nqn.2010-06.org.example:host7";
        let id = |host: &Host| host_id(host, &[]).to_string();
        assert_eq!(id(&host(HOST_NQN, Some(HOST_ID))), HOST_ID);
        assert_eq!(id(&host(HOST_NQN, None)), IN_NQN);
        let derived = id(&host(OTHER, None));
        assert_eq!(derived, id(&host(OTHER, None)));
        assert_ne!(derived, id(&host("nqn.2010-06.org.example:host8", None)));
        let no_uuid = id(&host(&format!("{OF_UUID}7"), None));
        assert_eq!(no_uuid.parse::<Uuid>().unwrap().get_version_num(), 5);
    }

    #[test]
    fn one_host_nqn_has_one_host_id() {
        let nic = Nic::new(1, [2; 6], "192.0.2.5", 24);
        let content = Nbft::parse(&table(&[nic], &[], &[])).unwrap().unwrap();
        let name = "NBFT1".to_owned();
        let tables = [FirmwareTable { name, content }];
        let id = |nqn| host_id(&host(nqn, None), &tables).to_string();
        assert_eq!(id(HOST_NQN), HOST_ID);
        assert_ne!(id("nqn.2010-06.org.example:host7"), HOST_ID);
    }
}
