//! An image that is proven by a signature file next to it.

use landfall_download::proof::Proof;
use landfall_download::signature::SigningKey;
use landfall_download::signature_file;
use rsa::traits::PublicKeyParts as _;
use rsa::{BigUint, Pkcs1v15Sign, RsaPrivateKey};

use super::*;

/// The primes of a key that signs nothing else.
const PRIMES: [&str; 2] = [
    "FF56E81A6730BD14A146185547E98B75A3B70BD96E832A4BA3FFCA7C28BC23700DDE316F866195C5E533C833C6F168CA97438054F68808371C32AF6699CD1E55",
    "C793E22CB16A7AF478B0E2E17C1DE281ADE9AE9F70B244FFDCB062A1850E6784A8E60221D8D651130CDB46D95129D0F97B72D6E1B3702775372BE7827241D3C1",
];

fn private_key() -> RsaPrivateKey {
    let [p, q] = PRIMES.map(|hex| BigUint::parse_bytes(hex.as_bytes(), 16).unwrap());
    RsaPrivateKey::from_p_q(p, q, BigUint::from(65537_u32)).unwrap()
}

fn integer(number: &[u8]) -> Vec<u8> {
    let bits = number.len() * 8 - number[0].leading_zeros() as usize;
    let mut integer = (bits as u16).to_be_bytes().to_vec();
    integer.extend(number);
    integer
}

fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x81 | tag << 2];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend(body);
    packet
}

/// The public key in OpenPGP format.
fn public_key(key: &RsaPrivateKey) -> Vec<u8> {
    let mut body = vec![4, 0, 0, 0, 0, 1];
    body.extend(integer(&key.n().to_bytes_be()));
    body.extend(integer(&key.e().to_bytes_be()));
    [packet(6, &body), packet(13, b"Test <t@example.org>")].concat()
}

/// A signature of version 4 that names the key in a subpacket.
fn signature(key: &RsaPrivateKey, id: u64, image: &[u8]) -> Vec<u8> {
    let mut body = vec![4, 0, 1, 8, 0, 10, 9, 16];
    body.extend(id.to_be_bytes());
    let mut signed = image.to_vec();
    signed.extend(&body);
    signed.extend([4, 0xff, 0, 0, 0, body.len() as u8]);
    let hash = hash(&signed);
    let prefix = [
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01,
        0x05, 0x00, 0x04, 0x20,
    ];
    let scheme = Pkcs1v15Sign {
        hash_len: Some(32),
        prefix: prefix.into(),
    };
    let value = key.sign(scheme, &hash).unwrap();
    body.extend([0, 0]);
    body.extend(&hash[..2]);
    body.extend(integer(&value));
    packet(2, &body)
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    let hasher = Hasher::new(Algorithm::Sha256);
    hasher.with_suffix(bytes).to_vec()
}

/// The id of the first key, taken from its text form.
fn id_of(keys: &[SigningKey]) -> u64 {
    let shown = keys[0].to_string();
    u64::from_str_radix(shown.split(' ').next().unwrap(), 16).unwrap()
}

fn serve(image: &[u8], signature: Option<Vec<u8>>) -> Server {
    let image = image.to_vec();
    Server::start(move |asked| match &signature {
        _ if !asked.path.ends_with(".sig") => Reply::correct(&image, "\"1\"", asked),
        Some(signature) => Reply::correct(signature, "\"2\"", asked),
        None => Reply::status(404),
    })
}

fn proof(server: &Server, keys: &[SigningKey]) -> Result<Proof> {
    signature_file::fetch(&request(server), &http_client(), keys).map_err(|none| none.failure)
}

fn write_signed(server: &Server, proof: Proof, disk: &NamedTempFile) -> Result<WrittenImage> {
    let source = ImageSource::new(request(server), proof);
    write_image(&source, open(disk.path(), 512), &http_client())?.commit()
}

#[test]
fn a_signed_image_arrives_and_a_changed_one_never_boots() {
    let key = private_key();
    let keys = SigningKey::read(&public_key(&key)).unwrap();
    let image = gpt_image(8 * MIB, 512);
    for body in [image.clone(), gzip(&image)] {
        let signature = signature(&key, id_of(&keys), &body);
        let server = serve(&body, Some(signature.clone()));
        let good = proof(&server, &keys).unwrap();
        let target = disk(DISK);
        assert!(write_signed(&server, good, &target).unwrap().verified);
        assert_holds(&target, &image);

        let mut other = image.clone();
        other[5 << 20] ^= 1;
        let other = if body.len() < image.len() {
            gzip(&other)
        } else {
            other
        };
        let server = serve(&other, Some(signature));
        let target = disk(DISK);
        let failure = write_signed(&server, proof(&server, &keys).unwrap(), &target).unwrap_err();
        assert_eq!(failure.class, Class::ImageChecksumError);
        assert!(failure.details.contains("bad signature"), "{failure}");
        assert_unbootable(&target);
    }
}

#[test]
fn without_a_signature_there_is_no_proof() {
    let keys = SigningKey::read(&public_key(&private_key())).unwrap();
    let image = gpt_image(8 * MIB, 512);
    let failure = proof(&serve(&image, None), &keys).unwrap_err();
    assert!(
        failure.details.contains("no signature: http://"),
        "{failure}"
    );
    assert!(failure.details.contains("404"), "{failure}");
    let elsewhere = signature(&private_key(), 7, &image);
    let failure = proof(&serve(&image, Some(elsewhere)), &keys).unwrap_err();
    assert!(
        failure.details.contains("by key 0000000000000007"),
        "{failure}"
    );
}
