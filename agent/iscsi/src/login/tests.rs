use proptest::prelude::*;

use super::*;

fn wish(chap: Option<Chap>) -> Wish {
    Wish {
        initiator: "iqn.2010-04.org.example:host".to_owned(),
        target: "iqn.2003-01.org.example:x".to_owned(),
        isid: [0x80, 1, 2, 3, 0, 0],
        chap,
    }
}

fn one_way() -> Chap {
    Chap {
        name: "host".to_owned(),
        secret: Secret("secretsecret".to_owned()),
        reverse: None,
    }
}

fn mutual() -> Chap {
    let reverse = Some(("array".to_owned(), Secret("otherothersecret".to_owned())));
    Chap {
        reverse,
        ..one_way()
    }
}

fn response(current: Stage, next: Option<Stage>, text: &str) -> LoginResponse {
    LoginResponse {
        current: Some(current),
        next,
        continues: false,
        version_active: 0,
        session: 1,
        task_tag: 0,
        status_number: 41,
        status: 0,
        data: text.replace(' ', "\0").into_bytes(),
    }
}

fn sent(next: Result<Next, LoginFault>) -> LoginRequest {
    match next {
        Ok(Next::Send(request)) => request,
        other => panic!("{other:?}"),
    }
}

fn text(request: &LoginRequest) -> String {
    String::from_utf8_lossy(&request.data).replace('\0', " ")
}

const SECURITY: Stage = Stage::Security;
const OPERATIONAL: Stage = Stage::Operational;

#[test]
fn without_authentication_it_has_two_rounds() {
    let mut login = Login::new(wish(None));
    let first = login.first();
    assert_eq!(
        text(&first),
        "InitiatorName=iqn.2010-04.org.example:host TargetName=iqn.2003-01.org.example:x SessionType=Normal AuthMethod=None "
    );
    assert_eq!((first.current, first.next), (SECURITY, Some(OPERATIONAL)));
    let answer = response(
        SECURITY,
        Some(OPERATIONAL),
        "AuthMethod=None TargetPortalGroupTag=1",
    );
    let second = sent(login.answer(&answer));
    assert!(text(&second).starts_with("HeaderDigest=None,CRC32C DataDigest="));
    assert_eq!(second.expected_status_number, 42);
    let end = login.answer(&response(
        OPERATIONAL,
        Some(Stage::FullFeature),
        "InitialR2T=Yes",
    ));
    let Ok(Next::Done(session)) = end else {
        panic!("{end:?}")
    };
    assert!(session.agreed.initial_r2t);
    assert_eq!(session.agreed.portal_group, Some(1));
    assert_eq!(session.expected_status_number, 42);
}

/// A login up to our CHAP response, and the request with that response.
fn proven(chap: Chap) -> (Login, LoginRequest) {
    let mut login = Login::new(wish(Some(chap)));
    assert_eq!(login.first().next, None);
    let offer = sent(login.answer(&response(SECURITY, None, "AuthMethod=CHAP")));
    assert_eq!(text(&offer), "CHAP_A=5,7,6 ");
    let challenge = response(SECURITY, None, "CHAP_A=5 CHAP_I=38 CHAP_C=0x0102");
    let proof = sent(login.answer(&challenge));
    assert!(text(&proof).starts_with("CHAP_N=host CHAP_R=0x820f2f37783f376e0f03e85209ecae8d "));
    (login, proof)
}

#[test]
fn a_challenge_is_answered() {
    let (mut login, proof) = proven(one_way());
    assert!(!text(&proof).contains("CHAP_C"));
    let operational = sent(login.answer(&response(SECURITY, Some(OPERATIONAL), "")));
    assert_eq!(operational.current, OPERATIONAL);
}

#[test]
fn a_target_must_authenticate_if_the_firmware_requires_it() {
    let proof_of = |request: &LoginRequest, secret: &str| {
        let text = text(request);
        let part = |key: &str| {
            let part = text.split(' ').find_map(|part| part.strip_prefix(key));
            part.unwrap().to_owned()
        };
        let identifier: u8 = part("CHAP_I=").parse().unwrap();
        let challenge = chap::decode(&part("CHAP_C=")).unwrap();
        let secret = Secret(secret.to_owned());
        chap::encode(&Algorithm::Md5.response(identifier, &secret, &challenge))
    };
    for (name, secret, fault) in [
        ("array", "otherothersecret", None),
        ("array", "secretsecret", Some(LoginFault::WrongProof)),
        ("other", "otherothersecret", Some(LoginFault::WrongProof)),
    ] {
        let (mut login, request) = proven(mutual());
        let answer = format!("CHAP_N={name} CHAP_R={}", proof_of(&request, secret));
        let end = login.answer(&response(SECURITY, Some(OPERATIONAL), &answer));
        assert_eq!(end.err(), fault, "{name} {secret}");
    }
    let (mut login, _) = proven(mutual());
    let end = login.answer(&response(SECURITY, Some(OPERATIONAL), ""));
    assert_eq!(end, Err(LoginFault::NotProven));
    let mut login = Login::new(wish(Some(mutual())));
    let end = login.answer(&response(SECURITY, Some(OPERATIONAL), "AuthMethod=None"));
    assert_eq!(end, Err(LoginFault::NotProven));
}

#[test]
fn a_refusal_has_its_cause() {
    for (status, cause) in [
        (0x0201, Cause::Authentication),
        (0x0202, Cause::Forbidden),
        (0x0203, Cause::UnknownTarget),
        (0x0302, Cause::Temporary),
        (0x0205, Cause::Protocol),
    ] {
        let mut refused = response(SECURITY, None, "");
        refused.status = status;
        let fault = Login::new(wish(None)).answer(&refused).unwrap_err();
        assert_eq!(fault.cause(), cause);
        assert!(!cause.remedy().is_empty());
    }
    let end = Login::new(wish(None)).answer(&response(SECURITY, None, "AuthMethod=CHAP"));
    assert_eq!(end, Err(LoginFault::NoSecret));
}

#[test]
fn a_redirection_leads_to_an_address() {
    for (text, expected) in [
        ("192.0.2.2", Some(("192.0.2.2", 3260))),
        ("192.0.2.2:3261,1", Some(("192.0.2.2", 3261))),
        ("[2001:db8::2]:3262,2", Some(("2001:db8::2", 3262))),
        ("[2001:db8::2]", Some(("2001:db8::2", 3260))),
        ("array.example:3260", None),
        ("192.0.2.2:0", None),
        ("0.0.0.0", None),
        ("[2001:db8::2]x", None),
        ("", None),
    ] {
        let mut answer = response(SECURITY, None, &format!("TargetAddress={text}"));
        answer.status = 0x0101;
        let end = Login::new(wish(None)).answer(&answer);
        let expected = match expected {
            Some((address, port)) => Ok(Next::Elsewhere(Redirect {
                address: address.parse().unwrap(),
                port,
            })),
            None => Err(LoginFault::Redirection(text.to_owned())),
        };
        assert_eq!(end, expected, "{text}");
    }
}

#[test]
fn a_text_may_be_continued_and_has_a_limit() {
    let mut login = Login::new(wish(None));
    let mut part = response(SECURITY, None, "AuthMethod=No");
    part.continues = true;
    assert_eq!(sent(login.answer(&part)).data, b"");
    let rest = response(SECURITY, Some(OPERATIONAL), "ne");
    assert_eq!(sent(login.answer(&rest)).current, OPERATIONAL);
    let mut login = Login::new(wish(None));
    part.data = vec![b'x'; 8192];
    let faults: Vec<_> = (0..30).filter_map(|_| login.answer(&part).err()).collect();
    assert_eq!(faults.first(), Some(&LoginFault::TooMuchText));
    assert_eq!(faults.last(), Some(&LoginFault::Endless));
}

proptest! {
    #[test]
    fn any_answers_end(answers in prop::collection::vec(
        (any::<u8>(), prop::sample::select(vec![0_u16, 0, 0, 0x101, 0x201]), "[A-Za-z_=0-9, ]{0,60}"), 0..40,
    )) {
        let mut login = Login::new(wish(Some(mutual())));
        for (flags, status, text) in answers {
            let mut header = [0; crate::pdu::HEADER];
            header[..2].copy_from_slice(&[0x23, flags]);
            header[36..38].copy_from_slice(&status.to_be_bytes());
            header[7] = u8::try_from(text.len()).unwrap();
            let response = LoginResponse::parse(&header, text.replace(' ', "\0").as_bytes()).unwrap();
            // Nobody gets past the proof of the target.
            prop_assert!(!matches!(login.answer(&response), Ok(Next::Done(_))));
        }
    }
}
