//! The ways in for `tests/fuzz`, and for nothing else: one function for each
//! input that comes from outside, from its bytes to the call of its parser.
//!
//! Compiled under `cfg(fuzzing)` only, which cargo-fuzz sets: the agent's
//! modules are private, and the fuzz targets are another crate. Where a format
//! has a checksum it is put right first: no fuzzer guesses one, and all that
//! lies behind it would never be reached.

use std::io::{BufReader, Read as _};
use std::net::Ipv6Addr;
use std::time::Duration;

use flate2::Crc;
use landfall_boot_params::CommandLine;
use landfall_network_plan::MacAddr;
use serde_json::Value;
use uuid::Uuid;

use crate::clock;
use crate::commands::command::Command;
use crate::commands::files_to_inject::{self, Content};
use crate::commands::image_info::ImageInfo;
use crate::commands::parse::{Parsed, Request};
use crate::commands::url_template;
use crate::discovery::mdns_advert::{Advert, AdvertAddress};
use crate::disk::aligned_buffer::AlignedBuffer;
use crate::disk::decode::Decoder;
use crate::disk::gpt::Table;
use crate::disk::kept_partitions::{DiskEnds, KeptPartitions};
use crate::disk::md_superblock::{MdSuperblock, Version};
use crate::disk::pipeline::UNIT;
use crate::disk::qcow2::assembly::{Assembly, Sink};
use crate::disk::qcow2::header::Header;
use crate::disk::qcow2::window::Piece;
use crate::disk::saved_partitions::PartitionFilter;
use crate::disk::signature::{ImageSignature, SigningKey, built_in_keys};
use crate::disk::{checksum_file, config_drive, file_system, image_head, iso9660, resume, vfat};
use crate::handover::console::Console;
use crate::handover::grub_environment::Environment;
use crate::handover::kernel_args::{self, Step};
use crate::handover::platform_table::PlatformTable;
use crate::handover::{
    boot_loader_entry, efi_device_path, efi_load_option, efi_loader, grub_choice, grub_console,
    grub_words, ignition_file,
};
use crate::http_client::{self, ZonedUrl};
use crate::installation::{InstallOptions, stream};
use crate::inventory::hint_expression::Expression;
use crate::inventory::root_device_hints::{RootDeviceHints, SkipList};
use crate::inventory::{ata_identify, disk_query, memory, smbios, vpd};
use crate::ironic::{LookupAnswer, wire};
use crate::media::Media;
use crate::network::advertisements::{dns::AdvertisedDns, user_option};
use crate::network::dhcp::{conflict, datagram, lease::Lease, message::Answer};
use crate::network::dhcp6;
use crate::settings::{ConfigFiles, Settings};
use crate::sys::uevent::Uevent;
use crate::tls::{Identity, ServerTrust, TlsPolicy, pem_files};

/// What is unpacked of one input: the head of an image and something behind it.
const UNPACKED_LIMIT: u64 = 4 << 20;

/// A detached signature, and the same bytes as a file of keys.
pub fn image_signature(data: &[u8]) {
    let keys = built_in_keys();
    if let Ok(signature) = ImageSignature::by_known_key(data, &keys) {
        assert!(!signature.is_over(&[0; 32]), "a forged signature");
    }
    let _ = SigningKey::read(data);
}

/// A partition table: `data` is a choice of sector and disk size, the header
/// and the entries. Whatever is valid is used as the disk pipeline does.
pub fn gpt(data: &[u8]) {
    let Some((&[choice, size], table)) = data.split_first_chunk::<2>() else {
        return;
    };
    let sector: usize = if choice & 1 == 0 { 512 } else { 4096 };
    let mut head = vec![0; 64 << 10];
    let (header, entries) = table.split_at(table.len().min(92));
    head[sector..sector + header.len()].copy_from_slice(header);
    let entries = &entries[..entries.len().min(head.len() - 2 * sector)];
    head[2 * sector..2 * sector + entries.len()].copy_from_slice(entries);
    if choice & 2 == 0 {
        seal(&mut head, sector);
    }
    // At most 4096.
    let Ok(mut table) = Table::parse(&head, sector as u32) else {
        return;
    };
    let _ = (table.image_size(), table.partitions_end());
    let _ = table.clone().add_at_end("config-2", 64 << 20, Uuid::nil());
    // 64 KiB to 16 GiB and beyond any disk.
    let disk = 1_u64 << (16 + u32::from(size) % 48);
    if table.move_backup_to_end(disk).is_ok() {
        let _ = table.add_at_end("config-2", 64 << 20, Uuid::nil());
        let (offset, backup) = table.backup();
        assert!(
            offset + backup.len() as u64 <= disk,
            "backup beyond the disk"
        );
        table.write_primary(&mut head);
        let again = Table::parse(&head, sector as u32);
        assert_eq!(again.as_ref(), Ok(&table), "what was written reads back");
        let again = Table::parse_backup(&backup, disk, sector as u32);
        let again = again.map(|table| table.partitions().to_vec());
        assert_eq!(
            again.as_deref(),
            Ok(table.partitions()),
            "so does its backup"
        );
    }
    kept(&head, sector as u32);
}

/// The disk that such a table is on, with all of its partitions to be kept.
fn kept(head: &[u8], sector: u32) {
    let ends = DiskEnds {
        head,
        tail: head,
        size: 1 << 40,
        sector,
    };
    let filters = [PartitionFilter::Index(None, Some(200))];
    if let Ok(Some(kept)) = KeptPartitions::find(&ends, &filters) {
        let _ = kept.refuse_collision(1 << 30);
        let mut image = kept.bare().clone();
        assert!(kept.merge_into(&mut image).is_err(), "each GUID once");
        assert!(kept.plain().is_ok());
    }
}

/// Both checksums of a header and of the entries it names.
fn seal(head: &mut [u8], sector: usize) {
    let number = |head: &[u8], at: usize| {
        let mut value = [0; 4];
        value.copy_from_slice(&head[sector + at..sector + at + 4]);
        u32::from_le_bytes(value) as usize
    };
    let crc = |bytes: &[u8]| {
        let mut crc = Crc::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    let start = number(head, 72).saturating_mul(sector);
    let len = number(head, 80).saturating_mul(number(head, 84));
    if let Some(entries) = head.get(start..start.saturating_add(len)) {
        let sum = crc(entries);
        head[sector + 88..sector + 92].copy_from_slice(&sum);
    }
    head[sector + 16..sector + 20].fill(0);
    let sum = crc(&head[sector..sector + 92]);
    head[sector + 16..sector + 20].copy_from_slice(&sum);
}

/// An image as it is downloaded: unpacked, and its head judged.
pub fn image(data: &[u8]) {
    let Ok((mut decoder, promised)) = Decoder::new(BufReader::new(data)) else {
        return;
    };
    let mut head = vec![0; image_head::HEAD_LEN];
    let Ok(filled) = decoder.fill(&mut head) else {
        let _ = decoder.into_input();
        return;
    };
    head.truncate(filled);
    for sector in [512, 4096] {
        let disk = image_head::Geometry {
            size: 1 << 34,
            sector,
        };
        let promise = image_head::Promise {
            exact: None,
            at_least: promised,
        };
        let _ = image_head::inspect(&head, disk, promise);
    }
    let mut rest = decoder.take(UNPACKED_LIMIT);
    let _ = std::io::copy(&mut rest, &mut std::io::sink());
}

/// A packed stream: how it is cut into reads, and the stream. The same comes out
/// whatever the cut.
pub fn unpack(data: &[u8]) {
    let Some((&[chunk, read], packed)) = data.split_first_chunk::<2>() else {
        return;
    };
    let whole = unpack_in(packed, 64 << 10, 64 << 10);
    let parts = unpack_in(packed, 1 + usize::from(chunk), 1 + 16 * usize::from(read));
    // Behind the limit one may have seen an error that the other has not.
    let limited = [&whole, &parts]
        .into_iter()
        .flatten()
        .any(|bytes| bytes.len() as u64 == UNPACKED_LIMIT);
    assert!(limited || whole == parts, "reads of other lengths differ");
}

/// What a stream unpacks to, up to the limit; `None` if it is broken.
fn unpack_in(packed: &[u8], chunk: usize, read: usize) -> Option<Vec<u8>> {
    let (decoder, _) = Decoder::new(BufReader::with_capacity(chunk, packed)).ok()?;
    let mut decoder = decoder.take(UNPACKED_LIMIT);
    let mut bytes = Vec::new();
    let mut buffer = vec![0; read];
    loop {
        match decoder.read(&mut buffer).ok()? {
            0 => return Some(bytes),
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
}

/// A qcow2 file: its header, its tables and compressed clusters, as they come
/// by. What is put together stays in memory, so only small disks are.
pub fn qcow2(data: &[u8]) {
    struct Nowhere(u64);
    impl Sink for Nowhere {
        fn put(&mut self, guest: u64, bytes: &[u8]) -> crate::failure::Result<()> {
            assert!(guest + bytes.len() as u64 <= self.0, "beyond the disk");
            Ok(())
        }
    }
    let Ok(header) = Header::parse(data) else {
        return;
    };
    if header.size > 64 << 20 {
        return;
    }
    let mut sink = Nowhere(header.size);
    let Ok(mut assembly) = Assembly::new(header, None, 1) else {
        return;
    };
    // Every pass reads all of it: no file of a fuzzer is long.
    loop {
        for (index, bytes) in data.chunks(UNIT).enumerate() {
            let buffer = AlignedBuffer::padded(bytes, UNIT);
            let piece = Piece::new((index * UNIT) as u64, buffer, bytes.len());
            if assembly.take(piece).is_err() {
                return;
            }
            if assembly.head().is_some() && assembly.write(&mut sink).is_err() {
                return;
            }
        }
        if assembly.file_ends().is_err() {
            return;
        }
        if assembly.head().is_some() && assembly.write(&mut sink).is_err() {
            return;
        }
        if !assembly.begin_pass().unwrap_or(false) {
            return;
        }
    }
}

/// A checksum file.
pub fn checksum(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // The first line stands for the name that an operator gave.
    let (name, text) = text.split_once('\n').unwrap_or(("image.raw", &text));
    if let Ok(found) = checksum_file::find(text, name) {
        assert!(found.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

/// A config drive as text and as a download.
pub fn config_drive(data: &[u8]) {
    let image = config_drive::decode_base64(data).unwrap_or_else(|_| data.to_vec());
    if let Ok(image) = config_drive::unpack(image) {
        let _ = file_system::identify(&image[..image.len().min(file_system::PROBE_LEN)]);
        if let Ok(files) = iso9660::files(&image)
            && let Ok(rebuilt) = vfat::build(&files, "CONFIG-2", 4096, 64 << 20)
        {
            assert!(rebuilt.len() <= 64 << 20, "larger than its partition");
        }
    }
}

/// The start of a partition: up to 2 KiB from its first byte, the rest where
/// ISO 9660 begins.
pub fn file_system(data: &[u8]) {
    for version in Version::ALL {
        let _ = MdSuperblock::parse(data, version, 1 << 20);
    }
    let (start, iso) = data.split_at(data.len().min(2048));
    let mut head = start.to_vec();
    if !iso.is_empty() {
        head.resize(32 << 10, 0);
        head.extend_from_slice(&iso[..iso.len().min(file_system::PROBE_LEN - head.len())]);
    }
    let _ = file_system::identify(&head);
}

/// The head of an answer to a download that goes on: one field a line.
pub fn download_answer(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let mut line = || lines.next().filter(|line| !line.is_empty());
    let received = line().and_then(|text| text.parse().ok()).unwrap_or(0);
    let known = resume::Resource {
        total: line().and_then(|text| text.parse().ok()),
        etag: line().map(str::to_owned),
        last_modified: None,
    };
    let answer = resume::Answer {
        status: line().and_then(|text| text.parse().ok()).unwrap_or(206),
        content_length: line().and_then(|text| text.parse().ok()),
        content_range: line().map(str::to_owned),
        content_type: line().map(str::to_owned),
        content_encoding: line().map(str::to_owned),
        etag: line().map(str::to_owned),
        last_modified: line().map(str::to_owned),
        retry_after: line().map(str::to_owned),
    };
    let _ = resume::judge(None, 0, &answer);
    let _ = resume::judge(Some(&known), received, &answer);
}

/// The body of a command, and what a command's execution reads of it before
/// anything is done.
pub fn http_command(data: &[u8]) {
    let Ok(Ok(Parsed::Command(command))) = Request::parse(data).map(Request::command) else {
        return;
    };
    let _ = (command.name(), command.is_asynchronous());
    let Command::ExecuteStep {
        node, arguments, ..
    } = *command
    else {
        return;
    };
    let arguments = Value::Object(arguments);
    let _ = ImageInfo::read(&arguments["image_info"]);
    if let Ok(files) = files_to_inject::read(&Value::Null, &arguments["files"]) {
        for file in files {
            if let Content::Url(template) = file.content {
                let _ = url_template::fill(&template, &node.0);
            }
        }
    }
    let properties = node.0.get("properties").unwrap_or(&Value::Null);
    let _ = RootDeviceHints::parse(&properties["root_device"]);
    let _ = SkipList::parse(&properties["skip_block_devices"]);
    let user_data = node
        .instance_info("configdrive")
        .and_then(|drive| drive["user_data"].as_str());
    let _ = ignition_file::with_hostname(user_data.map(str::as_bytes), Some("host"));
}

/// A message of the kernel about a device.
pub fn uevent(data: &[u8]) {
    if let Some(event) = Uevent::parse(data) {
        let _ = (event.subsystem(), event.modalias(), event.devtype());
    }
}

/// A packet on the wire (IP, ARP), then a DHCP message, then a lease.
pub fn dhcp(data: &[u8]) {
    let _ = datagram::payload(data);
    let _ = conflict::claimant(data, [192, 0, 2, 1].into());
    // Transaction and hardware address are what the fuzzer wrote: they only
    // tell whose answer it is.
    let transaction = data.get(4..8).and_then(|bytes| bytes.try_into().ok());
    let mac = data.get(28..34).and_then(|bytes| bytes.try_into().ok());
    let (Some(transaction), Some(mac)) = (transaction, mac) else {
        return;
    };
    let transaction = u32::from_be_bytes(transaction);
    if let Some(answer) = Answer::parse(data, transaction, MacAddr(mac))
        && let Ok(lease) = Lease::from_answer(&answer)
    {
        let _ = lease.gateway();
        assert!(lease.renew_after <= lease.rebind_after);
        assert!(lease.lifetime.is_none_or(|time| lease.rebind_after < time));
    }
}

/// A DHCPv6 message of whoever sends to our port. Transaction and identity are
/// what the fuzzer wrote: they only tell whose answer it is.
pub fn dhcpv6(data: &[u8]) {
    let Some((mac, message)) = data.split_first_chunk::<6>() else {
        return;
    };
    let identity = dhcp6::Identity::of(MacAddr(*mac));
    let transaction = message.get(1..4).and_then(|bytes| bytes.try_into().ok());
    let Some(transaction) = transaction else {
        return;
    };
    // The client's own identity in front, as a server repeats it.
    let (head, options) = message.split_at(4);
    let duid = &identity.duid;
    let client = [&[0, 1, 0, duid.len() as u8], duid.as_slice()].concat();
    let message = [head, &client, options].concat();
    let Some(answer) = dhcp6::message::Answer::parse(&message, transaction, &identity) else {
        return;
    };
    if let Some(lease) = dhcp6::Lease::of_address(&answer, Ipv6Addr::LOCALHOST) {
        let end = lease.address.and_then(|address| address.valid);
        let later = |time: Option<Duration>| time.unwrap_or(Duration::MAX);
        assert!(
            lease.renew_after.is_none() || later(lease.renew_after) <= later(lease.rebind_after)
        );
        assert!(end.is_none() || later(lease.rebind_after) < later(end));
    }
}

/// What the kernel passes on of router advertisements.
pub fn nd_user_option(data: &[u8]) {
    for option in user_option::read(data) {
        if let user_option::Content::Domains(names) = &option.content {
            assert!(names.iter().all(|name| !name.contains(char::is_whitespace)));
        }
        let mut dns = AdvertisedDns::default();
        dns.take(option, tokio::time::Instant::now());
        assert!(dns.servers().count() + dns.domains().count() <= 8);
    }
}

/// The SMBIOS table.
pub fn smbios(data: &[u8]) {
    for structure in smbios::structures(data) {
        let _ = (
            structure.byte(4),
            structure.word(4),
            structure.double_word(4),
        );
    }
    let _ = memory::modules_mib(data);
}

/// A page of vital product data.
pub fn vpd(data: &[u8]) {
    let _ = (vpd::unit_serial(data), vpd::pre_spc3_name(data));
    let _ = vpd::designators(data).count();
    let _ = vpd::lists(data, 0x83);
    let _ = (
        ata_identify::in_page_83(data),
        ata_identify::in_page_89(data),
    );
}

/// IDENTIFY data as the disk sends them, and as a captured tree has them.
pub fn ata_identify(data: &[u8]) {
    let _ = ata_identify::parse(data);
    let text = String::from_utf8_lossy(data);
    if let Some(words) = disk_query::words(&text) {
        let _ = ata_identify::parse(&words);
    }
    let _ = disk_query::bytes(&text);
}

/// A root device hint (first line) and a disk's property (the rest).
pub fn root_device_hint(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (hint, value) = text.split_once('\n').unwrap_or((&text, ""));
    if let Ok(expression) = Expression::for_text(hint) {
        let _ = (expression.matches_text(value), expression.is_exclusion());
    }
    if let Ok(expression) = Expression::for_size(hint) {
        let _ = expression.matches_size(value.parse().unwrap_or(100.0));
    }
}

/// A boot entry in the firmware and the CSV of a distribution's loader.
pub fn efi(data: &[u8]) {
    let _ = efi_load_option::label(data);
    let _ = efi_load_option::device_path_of(data);
    let _ = efi_device_path::to_text(data);
    if let Some((file, label)) = efi_loader::parse_csv(data) {
        assert!(!file.contains(['/', '\\']) && !label.is_empty());
    }
}

/// Ironic's answer to a lookup: a fault's text, and what it sets.
pub fn lookup_answer(data: &[u8]) {
    let answer = http_client::Answer {
        status: 200,
        date: None,
        body: String::from_utf8_lossy(data).into_owned(),
    };
    let _ = wire::fault(&answer);
    if let Ok(found) = LookupAnswer::read(&answer.body) {
        assert!(found.config.is_object() && !found.uuid.contains('/'));
        let _ = found.agent_token();
        let line = CommandLine::parse("");
        let mut settings = Settings::from_sources(line, Media::default(), ConfigFiles::default());
        let _ = settings.apply_lookup_config(&found.config);
    }
}

/// The `Date` of Ironic's answers, by which a clock may be set.
pub fn http_date(data: &[u8]) {
    let _ = clock::parse_date(&String::from_utf8_lossy(data));
}

/// A CA file or an identity that an operator gives: read, and made use of.
pub fn pem_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = pem_files::certificates_of("fuzz", data);
    if let Ok(identity) = Identity::from_pem("fuzz", &text, &text) {
        let _ = TlsPolicy::default().server(&identity);
        let _ = TlsPolicy::default().client(ServerTrust::anybody(), Some(&identity));
    }
}

/// What a stranger on the link says by mDNS: port, SRV target, one TXT entry a
/// line; the addresses are fixed.
pub fn mdns_advert(data: &[u8]) {
    let Some((port, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let mut lines = rest.split(|byte| *byte == b'\n');
    let host = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let txt = lines.map(|line| match line.iter().position(|byte| *byte == b'=') {
        Some(at) => (
            String::from_utf8_lossy(&line[..at]).into_owned(),
            line[at + 1..].to_vec(),
        ),
        None => (String::from_utf8_lossy(line).into_owned(), Vec::new()),
    });
    let advert = Advert {
        host,
        port: u16::from_be_bytes(*port),
        addresses: vec![
            AdvertAddress {
                address: Ipv6Addr::LOCALHOST.into(),
                interface: None,
            },
            AdvertAddress {
                address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).into(),
                interface: Some("eth0".to_owned()),
            },
        ],
        txt: txt.collect(),
    };
    if let Ok(endpoint) = advert.endpoint(|_| false) {
        let zoned = ZonedUrl::parse(&endpoint.url);
        assert!(reqwest::Url::parse(&zoned.url).is_ok(), "{}", endpoint.url);
    }
}

/// A boot loader entry, edited: arguments to append and to delete in the first
/// two lines. One that GRUB can read it can still read afterwards.
pub fn bls_entry(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let mut arguments = || -> Vec<String> {
        let words = lines.next().unwrap_or_default().split(' ');
        words.map(str::to_owned).collect()
    };
    let (append, delete) = (arguments(), arguments());
    let refused = kernel_args::check_appended(&append).is_err();
    if refused || kernel_args::check_deleted(&delete).is_err() {
        return;
    }
    let entry = lines.next().unwrap_or_default();
    let appended = append.clone();
    let steps = [
        Step::Platform("qemu".to_owned()),
        Step::Change { delete, append },
    ];
    for steps in [&steps[..], &steps[1..]] {
        let Ok(edited) = boot_loader_entry::edit_text(entry, steps) else {
            continue;
        };
        let rest = |text: &str| -> Vec<String> {
            let lines = text
                .split('\n')
                .filter(|line| !line.starts_with("options "));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(rest(&edited), rest(entry), "the other lines stay");
        let options = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter_map(|line| line.strip_prefix("options "));
            lines.map(str::to_owned).collect()
        };
        let (old, new) = (options(entry), options(&edited));
        assert_eq!(new.len(), 1, "{edited:?}");
        let last = appended.last().map_or("", |last| last.trim());
        assert!(new[0].ends_with(last), "{edited:?}");
        if grub_words::check(old[0].trim()).is_ok() {
            assert_eq!(grub_words::check(&new[0]), Ok(()), "{edited:?}");
        }
    }
}

/// GRUB's environment block: whatever can be read can be written, and reads
/// back as the same.
pub fn grub_environment(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(mut environment) = Environment::parse(text) else {
        return;
    };
    if let Some(value) = environment.get("kernelopts").map(str::to_owned) {
        let delete = Step::Change {
            delete: vec!["console=tty0".to_owned()],
            append: Vec::new(),
        };
        environment.set("kernelopts", &delete.edit(&value));
    }
    // What it means can be longer than it was: an escape before nothing special.
    if let Ok(block) = environment.to_bytes() {
        assert_eq!(block.len(), data.len());
        let again = std::str::from_utf8(&block).map(Environment::parse);
        assert_eq!(again, Ok(Ok(environment)));
    }
}

/// What GRUB would boot: an entry, and behind a NUL the script of the first
/// boot. No variable and no quote of GRUB's reaches the kernel.
pub fn grub_choice(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (entry, script) = text.split_once('\0').unwrap_or((&*text, ""));
    if let Ok(arguments) = grub_choice::arguments(entry, script) {
        assert!(!arguments.contains(['$', '"', '\'', '\\']), "{arguments}");
    }
}

/// GRUB's configuration, with another console block.
pub fn grub_console(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let commands = ["serial --unit=0".to_owned(), "terminal_input".to_owned()];
    if let Ok(edited) = grub_console::with_commands(&text, &commands) {
        let again = grub_console::with_commands(&edited, &commands);
        assert_eq!(again.as_ref(), Ok(&edited), "the same edit again");
    }
}

/// The table of platforms, and a console of `--console` behind it.
pub fn platform_table(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(table) = PlatformTable::parse(&text) {
        let _ = table.platform("metal");
    }
    if let Ok(console) = text.parse::<Console>() {
        assert_eq!(console.to_string().parse(), Ok(console));
    }
}

/// A config file of an installation.
pub fn install_config(data: &[u8]) {
    if let Err(reason) = InstallOptions::from_config(&String::from_utf8_lossy(data)) {
        assert!(!reason.contains('\n'), "{reason:?}");
    }
}

/// The description of a CoreOS stream.
pub fn stream_metadata(data: &[u8]) {
    for sector in [512, 4096] {
        if let Ok(found) = stream::find(data, "x86_64", sector) {
            assert_eq!(found.sha256.hex().len(), 64);
        }
    }
}
