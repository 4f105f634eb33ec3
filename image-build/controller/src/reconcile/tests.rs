use serde_json::{Value, json};

use super::*;

const URL: &str = "http://192.0.2.1/1/host.iso";
const OLD_URL: &str = "http://192.0.2.1/0/host.iso";
const RAMDISK: &str = "http://192.0.2.1/1/host.initramfs";
const KERNEL: &str = "http://192.0.2.1/kernel";
const BEGIN: i64 = 1_000_000;

/// A case of the tables: what differs from the usual case. In the usual case the
/// resource has our finalizer, names the Secret `net` and accepts both formats, and
/// nothing has been done yet.
struct Case {
    resource: PreprovisioningImage,
    is_writer: bool,
    formats: Option<Vec<Format>>,
    secret: SecretView,
    image: ImageView,
    published: Option<&'static str>,
    written: Option<Status>,
    now: i64,
}

impl Case {
    fn new() -> Self {
        let resource = json!({
            "metadata": {
                "name": "host", "namespace": "metal3", "uid": "uid-1", "generation": 2,
                "resourceVersion": "100", "finalizers": [FINALIZER],
            },
            "spec": {
                "networkDataName": "net", "architecture": "x86_64",
                "acceptFormats": ["iso", "initrd"],
            },
        });
        Self {
            resource: serde_json::from_value(resource).unwrap(),
            is_writer: true,
            formats: Some(vec![Format::Iso, Format::Initrd]),
            secret: SecretView::NotRead,
            image: ImageView::NotRendered,
            published: None,
            written: None,
            now: BEGIN,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn spec(self, key: &'static str, value: Value) -> Self {
        self.with(|case| case.resource.spec[key] = value)
    }

    fn status(self, status: Value) -> Self {
        self.with(|case| case.resource.status = status)
    }

    fn finalizers(self, names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.with(|case| case.resource.metadata.finalizers = Some(names))
    }

    fn deleted(self) -> Self {
        self.with(|case| {
            case.resource.metadata.deletion_timestamp = Some(
                k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH),
            )
        })
    }

    fn reader(self) -> Self {
        self.with(|case| case.is_writer = false)
    }

    fn published(self, url: &'static str) -> Self {
        self.with(|case| case.published = Some(url))
    }

    fn secret(self, is_claimed: bool) -> Self {
        let version = "7".to_owned();
        let claim = match is_claimed {
            true => Claim::Made,
            false => Claim::Needed,
        };
        let secret = SecretView::Read { version, claim };
        self.with(|case| case.secret = secret)
    }

    fn rendered(self, image: &str, kernel: Option<&str>) -> Self {
        let urls = ImageUrls {
            image: image.to_owned(),
            kernel: kernel.map(str::to_owned),
        };
        self.with(|case| case.image = ImageView::Rendered(urls))
    }

    fn step(&self) -> Step {
        next_step(&View {
            resource: &self.resource,
            is_writer: self.is_writer,
            formats: self.formats.as_deref(),
            secret: &self.secret,
            image: &self.image,
            published: self.published,
            extra_kernel_params: "quiet",
            written: self.written.as_ref(),
            now: Timestamp::from_second(self.now).unwrap(),
        })
    }

    /// The status that the step writes, as the API server stores it.
    fn writes(&self) -> Value {
        match self.step() {
            Step::WriteStatus(status) => status.patch("")["status"].take(),
            step => panic!("expected a status, found {step:?}"),
        }
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, since: i64) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "observedGeneration": 2, "lastTransitionTime": Timestamp::from_second(since).unwrap(),
    })
}

fn ready_status(url: &str, version: &str) -> Value {
    json!({
        "imageUrl": url, "kernelUrl": null, "extraKernelParams": null, "format": "iso",
        "architecture": "x86_64", "networkData": {"name": "net", "version": version},
        "conditions": [
            condition("Ready", "True", "ImageSuccess", "Generated image", BEGIN),
            condition("Error", "False", "ImageSuccess", "", BEGIN),
        ],
    })
}

fn wanted() -> Wanted {
    Wanted {
        format: Format::Iso,
        architecture: "x86_64".to_owned(),
        network_data: NetworkData {
            name: "net".to_owned(),
            version: "7".to_owned(),
        },
    }
}

#[test]
fn the_step_that_follows() {
    let new = Case::new;
    let other = "baremetalhost.metal3.io/x";
    let label = |case: &mut Case| {
        let label = (crate::resource::ASSISTED_SERVICE.to_owned(), "a".to_owned());
        case.resource.metadata.labels = Some([label].into());
    };
    for (name, case, expected) in [
        ("a new resource", new().finalizers(&[]), Step::AddFinalizer),
        (
            "a new resource that only others have finalizers on",
            new().finalizers(&[other]),
            Step::AddFinalizer,
        ),
        ("not the writer", new().finalizers(&[]).reader(), WAIT),
        ("with finalizer", new(), Step::ReadSecret),
        (
            "with finalizer, not the writer",
            new().reader(),
            Step::ReadSecret,
        ),
        (
            "an unclaimed Secret",
            new().secret(false),
            Step::ClaimSecret,
        ),
        (
            "an unclaimed Secret, not the writer",
            new().secret(false).reader(),
            Step::Render(wanted()),
        ),
        (
            "a claimed Secret",
            new().secret(true),
            Step::Render(wanted()),
        ),
        (
            "rendered",
            new().secret(true).rendered(URL, None),
            Step::Publish,
        ),
        (
            "published by a reader",
            new()
                .secret(true)
                .rendered(URL, None)
                .published(URL)
                .reader(),
            WAIT,
        ),
        (
            "nothing has changed",
            new()
                .secret(true)
                .rendered(URL, None)
                .published(URL)
                .status(ready_status(URL, "7")),
            WAIT,
        ),
        (
            "after a restart",
            new()
                .secret(true)
                .rendered(URL, None)
                .status(ready_status(URL, "7")),
            Step::Publish,
        ),
        (
            "a reader waits until the writer has taken back the old URL",
            new()
                .secret(true)
                .rendered(URL, None)
                .published(OLD_URL)
                .status(ready_status(OLD_URL, "6"))
                .reader(),
            WAIT,
        ),
        (
            "a reader that has nothing to lose",
            new()
                .secret(true)
                .rendered(URL, None)
                .status(ready_status(OLD_URL, "6"))
                .reader(),
            Step::Publish,
        ),
        ("deleted", new().deleted(), Step::RemoveFinalizer),
        (
            "deleted, published",
            new().deleted().published(URL),
            Step::Withdraw,
        ),
        ("deleted, not the writer", new().deleted().reader(), WAIT),
        (
            "deleted, published, not the writer",
            new().deleted().published(URL).reader(),
            Step::Withdraw,
        ),
        (
            "deleted, another finalizer",
            new()
                .deleted()
                .published(URL)
                .finalizers(&[other, FINALIZER]),
            WAIT,
        ),
        (
            "deleted, no finalizer",
            new().deleted().finalizers(&[]),
            WAIT,
        ),
        (
            "assisted-service's",
            new().finalizers(&[]).with(label),
            WAIT,
        ),
        (
            "assisted-service's since today",
            new().with(label).published(URL),
            Step::Withdraw,
        ),
        (
            "assisted-service's since today, withdrawn",
            new().with(label),
            Step::RemoveFinalizer,
        ),
    ] {
        assert_eq!(case.step(), expected, "{name}");
    }
}

#[test]
fn errors_of_the_configuration() {
    for (case, message) in [
        (
            Case::new().with(|case| case.formats = None),
            "Architecture not supported",
        ),
        (
            Case::new().spec("acceptFormats", json!([])),
            "No acceptable image format supported",
        ),
        (
            Case::new()
                .spec("acceptFormats", json!(["iso"]))
                .with(|case| case.formats = Some(vec![Format::Initrd])),
            "No acceptable image format supported",
        ),
    ] {
        let mut expected = ready_status(URL, "6");
        expected["imageUrl"] = json!(null);
        expected["conditions"] = json!([
            condition("Ready", "False", "ConfigurationError", "", BEGIN + 5),
            condition("Error", "True", "ConfigurationError", message, BEGIN + 5),
        ]);
        let case = case
            .status(ready_status(URL, "6"))
            .with(|case| case.now += 5);
        assert_eq!(case.writes(), expected, "{message}");
        let again = case.status(expected).with(|case| case.now += 5);
        assert_eq!(again.step(), WAIT, "{message}");
        assert_eq!(again.reader().step(), WAIT, "{message}");
    }
}

/// The delays depend on the time of the error in the status.
#[test]
fn a_missing_secret() {
    let missing = |case: &mut Case| case.secret = SecretView::Missing;
    let first = Case::new().with(missing).status(json!({}));
    let written = first.writes();
    let expected = json!([
        condition("Ready", "False", "MissingNetworkData", "", BEGIN),
        condition(
            "Error",
            "True",
            "MissingNetworkData",
            "NetworkData secret not found",
            BEGIN
        ),
    ]);
    assert_eq!(written["conditions"], expected);
    for (waited, delay) in [
        (0, 10),
        (10, 20),
        (30, 40),
        (310, 320),
        (630, 600),
        (86_400, 600),
    ] {
        let case = Case::new().with(missing).status(written.clone());
        let case = case.with(|case| case.now += waited);
        let Step::Done(Next::After(found)) = case.step() else {
            panic!("expected a delay, found {:?}", case.step());
        };
        let shortest = Duration::from_secs(delay);
        assert!(
            (shortest..=shortest.mul_f64(1.1)).contains(&found),
            "{waited}: {found:?}"
        );
        assert_eq!(case.reader().step(), WAIT);
    }
}

/// The controller does not watch a Secret that it has not claimed, so it reads the Secret
/// again after a delay.
#[test]
fn a_secret_of_another_program_is_read_again() {
    let secret = SecretView::Read {
        version: "7".to_owned(),
        claim: Claim::Refused,
    };
    let case = || Case::new().with(|case| case.secret = secret.clone());
    assert_eq!(case().step(), Step::Render(wanted()));
    let refused = |case: &mut Case| case.image = ImageView::Refused("no key".to_owned());
    let written = case().with(refused).writes();
    let case = || case().with(refused).status(written.clone());
    assert!(
        matches!(case().step(), Step::Done(Next::After(_))),
        "{:?}",
        case().step()
    );
    assert_eq!(case().reader().step(), WAIT);
}

/// The status stops reporting the old URL as ready before the new image replaces the old
/// one.
#[test]
fn a_changed_secret_takes_two_writes() {
    let case = || {
        Case::new()
            .secret(true)
            .rendered(URL, None)
            .with(|case| case.now += 5)
    };
    let mut taken_back = ready_status(OLD_URL, "6");
    taken_back["conditions"][0] = condition(
        "Ready",
        "False",
        "ImageSuccess",
        "Config changed",
        BEGIN + 5,
    );
    let first = case().published(OLD_URL).status(ready_status(OLD_URL, "6"));
    assert_eq!(first.writes(), taken_back);
    let second = case().published(OLD_URL).status(taken_back.clone());
    assert_eq!(second.step(), Step::Publish);
    let third = case().published(URL).status(taken_back);
    let mut ready = ready_status(URL, "7");
    ready["conditions"][0] = condition(
        "Ready",
        "True",
        "ImageSuccess",
        "Generated image",
        BEGIN + 5,
    );
    assert_eq!(third.writes(), ready);
    assert_eq!(case().published(URL).status(ready).step(), WAIT);
}

/// baremetal-operator also claims the Secret, and so changes the Secret's version a few
/// times.
#[test]
fn a_secret_with_the_same_network_takes_one_write() {
    let case = Case::new().secret(true).rendered(URL, None).published(URL);
    let case = case.status(ready_status(URL, "6"));
    assert_eq!(case.writes(), ready_status(URL, "7"));
}

#[test]
fn a_ramdisk_has_a_kernel_and_arguments() {
    let case = Case::new()
        .spec("acceptFormats", json!(["initrd"]))
        .secret(true)
        .rendered(RAMDISK, Some(KERNEL))
        .published(RAMDISK);
    let mut expected = ready_status(RAMDISK, "7");
    expected["format"] = json!("initrd");
    expected["kernelUrl"] = json!(KERNEL);
    expected["extraKernelParams"] = json!("quiet");
    assert_eq!(case.writes(), expected);
    // Back to an ISO: nothing of the ramdisk stays in the status.
    let mut taken_back = expected;
    taken_back["conditions"][0]["status"] = json!("False");
    let back = Case::new()
        .secret(true)
        .rendered(URL, None)
        .published(URL)
        .status(taken_back);
    assert_eq!(back.writes(), ready_status(URL, "7"));
}

#[test]
fn a_refused_image_says_why() {
    let refuse = |case: &mut Case| case.image = ImageView::Refused("too large".to_owned());
    let case = Case::new().secret(true).with(refuse);
    let case = case.status(ready_status(OLD_URL, "6")).published(OLD_URL);
    let mut expected = ready_status("", "7");
    expected["imageUrl"] = json!(null);
    expected["conditions"] = json!([
        condition("Ready", "False", "ImageBuildInvalid", "", BEGIN),
        condition(
            "Error",
            "True",
            "ImageBuildInvalid",
            "Cannot generate image: too large",
            BEGIN
        ),
    ]);
    assert_eq!(case.writes(), expected);
    assert_eq!(case.status(expected).step(), WAIT);
}

#[test]
fn a_resource_without_a_secret_needs_none() {
    let case = Case::new().spec("networkDataName", json!(null));
    let wanted = Wanted {
        network_data: NetworkData::default(),
        ..wanted()
    };
    assert_eq!(case.step(), Step::Render(wanted));
    let case = case.rendered(URL, None).published(URL);
    let empty = json!({"name": null, "version": null});
    assert_eq!(case.writes()["networkData"], empty);
}

/// A change of `spec` that does not concern the image changes only the generation.
#[test]
fn the_observed_generation_follows() {
    let case = Case::new().secret(true).rendered(URL, None).published(URL);
    let case = case
        .status(ready_status(URL, "7"))
        .with(|case| case.resource.metadata.generation = Some(3));
    let written = case.writes();
    let generations: Vec<_> = written["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["observedGeneration"].clone())
        .collect();
    assert_eq!(generations, [3, 3]);
    assert_eq!(written["imageUrl"], URL);
}

/// An older CRD has no `kernelUrl`, so the API server drops it.
#[test]
fn a_status_that_does_not_stay_is_not_written_again() {
    let case = Case::new()
        .spec("acceptFormats", json!(["initrd"]))
        .secret(true)
        .rendered(RAMDISK, Some(KERNEL))
        .published(RAMDISK);
    let Step::WriteStatus(status) = case.step() else {
        panic!("expected a status, found {:?}", case.step());
    };
    let mut stored = status.patch("")["status"].take();
    stored["kernelUrl"] = json!(null);
    let case = case
        .status(stored)
        .with(|case| case.written = Some(*status));
    assert_eq!(case.step(), WAIT);
}
