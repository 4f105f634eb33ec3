use landfall_sys::sys_tree::plant;

use super::*;

const TREE: &str = r"
proc/sys/kernel/osrelease = 6.1-t\n
lib/modules/6.1-t/landfall.index = landfall-module-index 1\nkernel 6.1-t\nmodule igb kernel/igb.ko\nalias pci:v00008086d00001521sv*sd*bc*sc*i*\nend\n
lib/modules/6.1-t/landfall.left-out = landfall-left-out 1\nmodule e100\npci 80861209\nmodule ax88179_178a\nusb 0B951790\nfirmware bnx2 bnx2/a.fw firmware-bnx2\nend\n
sys/bus/pci/devices/0000:00:00.0/class = 0x060000\n
sys/bus/pci/devices/0000:00:03.0/class = 0x020000\n
sys/bus/pci/devices/0000:00:03.0/vendor = 0x8086\n
sys/bus/pci/devices/0000:00:03.0/device = 0x1209\n
sys/bus/pci/devices/0000:00:03.0/modalias = pci:v00008086d00001209sv00001AF4sd00001100bc02sc00i00\n
sys/bus/pci/devices/0000:00:04.0/class = 0x020000\n
sys/bus/pci/devices/0000:00:04.0/vendor = 0x8086\n
sys/bus/pci/devices/0000:00:04.0/device = 0x1521\n
sys/bus/pci/devices/0000:00:04.0/modalias = pci:v00008086d00001521sv00001AF4sd00001100bc02sc00i00\n
sys/bus/pci/devices/0000:00:05.0/class = 0x0c0400\n
sys/bus/pci/devices/0000:00:05.0/vendor = 0xabcd\n
sys/bus/pci/devices/0000:00:05.0/device = 0x0001\n
sys/bus/pci/devices/0000:00:05.0/modalias = pci:v0000ABCDd00000001sv00000000sd00000000bc0Csc04i00\n
sys/bus/pci/devices/0000:00:06.0/class = 0x020000\n
sys/bus/pci/devices/0000:00:06.0/vendor = 0x14e4\n
sys/bus/pci/devices/0000:00:06.0/device = 0x1639\n
sys/bus/pci/devices/0000:00:06.0/driver -> ../../../bus/pci/drivers/bnx2
sys/bus/pci/devices/0000:00:07.0/class = 0x020000\n
sys/bus/pci/devices/0000:00:07.0/vendor = 0x1077\n
sys/bus/pci/devices/0000:00:07.0/device = 0x1634\n
sys/bus/usb/devices/1-2/idVendor = 0b95\n
sys/bus/usb/devices/1-2/idProduct = 1790\n
sys/bus/usb/devices/1-2/manufacturer = ASIX\n
sys/bus/usb/devices/1-2:1.0/bInterfaceClass = ff\n
sys/bus/usb/devices/1-2:1.0/bInterfaceSubClass = ff\n
sys/bus/usb/devices/1-2:1.0/bInterfaceProtocol = 00\n
sys/bus/usb/devices/1-2:1.0/modalias = usb:v0B95p1790d0100dc00dsc00dp00icFFiscFFip00in00\n
sys/bus/usb/devices/1-3/idVendor = 1234\n
sys/bus/usb/devices/1-3/idProduct = 0001\n
sys/bus/usb/devices/1-3:1.0/bInterfaceClass = ff\n
sys/bus/usb/devices/1-3:1.0/modalias = usb:v1234p0001d0100dc00dsc00dp00icFFiscFFip00in00\n
";

const LOG: [&str; 4] = [
    "bnx2 0000:00:06.0: Direct firmware load for bnx2/a.fw failed with error -2",
    "bnx2 0000:00:06.0: Direct firmware load for bnx2/a.fw failed with error -2",
    "bnx2 0000:00:06.0: Direct firmware load for bnx2/own.fw failed with error -2",
    "qede 0000:00:07.0: Direct firmware load for qed/a.bin failed with error -2",
];

#[test]
fn each_fault_names_the_device_and_what_it_lacks() {
    let root = plant(TREE);
    let log = LOG.map(str::to_owned);
    let faults = with_log(root.path(), &log);
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let expected = [
        "no driver for network card 0000:00:03.0 (PCI ID 8086:1209, class 020000, Intel): the kernel's module e100 would drive it, and is not in this ramdisk",
        "no driver for network card 0000:00:04.0 (PCI ID 8086:1521, class 020000, Intel): the module igb is in this ramdisk, but did not accept the device",
        "no driver for storage controller 0000:00:05.0 (PCI ID abcd:0001, class 0c0400): this kernel has no module for it",
        "the driver bnx2 of network card 0000:00:06.0 (PCI ID 14e4:1639, class 020000, Broadcom) did not find its firmware bnx2/a.fw (package firmware-bnx2), bnx2/own.fw (in no known package)",
        "the driver qede of network card 0000:00:07.0 (PCI ID 1077:1634, class 020000, QLogic) did not find its firmware qed/a.bin (in no known package)",
        "no driver for network card 1-2:1.0 (USB ID 0b95:1790, class ffff00, ASIX): the kernel's module ax88179_178a would drive it, and is not in this ramdisk",
    ];
    assert_eq!(lines, expected);
    let serious: Vec<bool> = faults.iter().map(DriverFault::is_serious).collect();
    assert_eq!(serious, [true, true, false, true, true, true]);
}

/// A driver asks for its newest file first, and then for older ones.
#[test]
fn a_device_that_works_is_no_trouble() {
    let with = |more: &str| {
        let root = plant(&format!("{TREE}{more}"));
        let faults = with_log(root.path(), &LOG.map(str::to_owned)[..3]);
        let mut faults = faults.into_iter();
        faults
            .find(|fault| fault.address.ends_with("06.0"))
            .unwrap()
    };
    let nic = "sys/bus/pci/devices/0000:00:06.0/net";
    let on = format!("{nic}/eth0/flags = 0x1002\\n\n{nic}/eth1/flags = 0x1003\\n\n");
    let off = format!("{nic}/eth0/flags = 0x1002\\n\n");
    let fault = with(&on);
    assert_eq!(
        fault.to_string(),
        "network card 0000:00:06.0 (PCI ID 14e4:1639, class 020000, Broadcom) works with other firmware: its driver bnx2 did not find bnx2/a.fw (package firmware-bnx2), bnx2/own.fw (in no known package)"
    );
    assert!(!fault.is_serious() && !fault.may_pass());
    for tree in [off.as_str(), ""] {
        let fault = with(tree);
        assert!(fault.is_serious() && fault.may_pass(), "{fault}");
    }
}

#[test]
fn a_controller_with_a_driver_works() {
    let root = plant(
        "sys/bus/pci/devices/0000:00:05.0/class = 0x0c0400\\n\n\
         sys/bus/pci/devices/0000:00:05.0/vendor = 0x1077\\n\n\
         sys/bus/pci/devices/0000:00:05.0/device = 0x2532\\n\n\
         sys/bus/pci/devices/0000:00:05.0/driver -> ../../../bus/pci/drivers/qla2xxx\n",
    );
    let log = ["qla2xxx 0000:00:05.0: Direct firmware load for ql2500_fw.bin failed with error -2"];
    let faults = with_log(root.path(), &log.map(str::to_owned));
    assert!(!faults[0].is_serious(), "{}", faults[0]);
}

#[test]
fn without_the_builders_lists_only_the_device_is_named() {
    let root = plant(
        "sys/bus/pci/devices/0000:00:03.0/class = 0x020000\\n\n\
         sys/bus/pci/devices/0000:00:03.0/vendor = 0x8086\\n\n\
         sys/bus/pci/devices/0000:00:03.0/device = 0x1209\\n\n",
    );
    let faults = with_log(root.path(), &[]);
    assert_eq!(
        faults[0].to_string(),
        "no driver for network card 0000:00:03.0 (PCI ID 8086:1209, class 020000, Intel)"
    );
    assert_eq!(faults[0].lack, Lack::Driver(Modules::Unknown));
}
