//! Answers of hostile and broken servers.

use landfall_http_client::fixtures::Asked;

use super::*;

/// The behaviour of a hostile or broken server, and a part of the expected error. If that
/// part is empty, the file must arrive intact.
struct Case {
    name: &'static str,
    expected_error: &'static str,
    /// The first connection breaks after a third of the file.
    breaks_first: bool,
    answer: fn(&[u8], &Asked) -> Reply,
}

const fn case(
    name: &'static str,
    expected_error: &'static str,
    answer: fn(&[u8], &Asked) -> Reply,
) -> Case {
    Case {
        name,
        expected_error,
        breaks_first: false,
        answer,
    }
}

/// A case that breaks the first connection and is about the answer to the second one.
const fn then(
    name: &'static str,
    expected_error: &'static str,
    answer: fn(&[u8], &Asked) -> Reply,
) -> Case {
    Case {
        breaks_first: true,
        ..case(name, expected_error, answer)
    }
}

const LEN: usize = 300_000;

const CASES: &[Case] = &[
    case("20 breaks", "", |file, asked| {
        let reply = Reply::correct(file, "\"1\"", asked);
        match asked.earlier {
            20.. => reply,
            // Breaks at a different place each time.
            number => reply.cut(7_919 * (number + 1) % 15_013),
        }
    }),
    case(
        "a chunked body without its last chunk",
        "",
        |file, asked| {
            let mut reply = Reply::correct(file, "\"1\"", asked);
            if asked.from.is_none() {
                reply.headers[0] = "Transfer-Encoding: chunked".to_owned();
                reply.body = [format!("{LEN:x}\r\n").as_bytes(), file, b"\r\n"].concat();
            }
            reply
        },
    ),
    case("more than it said", "", |file, asked| {
        let mut reply = Reply::correct(file, "\"1\"", asked);
        reply.body.extend_from_slice(b"more");
        reply
    }),
    case(
        "less than it said, each time",
        "the file changed on the server at byte 300000",
        |file, asked| {
            let mut reply = Reply::whole(file, "\"1\"");
            reply.headers[0] = format!("Content-Length: {}", LEN + 1000);
            match asked.from {
                None => reply,
                Some(_) => Reply::status(416),
            }
        },
    ),
    then(
        "a range from another byte",
        "asked for bytes from 100000, was sent bytes from 100001",
        |file, asked| {
            let mut asked = asked.clone();
            asked.from = asked.from.map(|from| from + 1);
            Reply::correct(file, "\"1\"", &asked)
        },
    ),
    then("all of it instead of a range", "", |file, _| {
        Reply::whole(file, "\"1\"")
    }),
    then(
        "a shorter file instead of a range",
        "the file changed on the server at byte 100000",
        |file, _| Reply::whole(&file[..200_000], "\"1\""),
    ),
    then(
        "a range of another total",
        "length was 300000 bytes, is 300004 bytes",
        |file, asked| Reply::correct(&[file, b"more"].concat(), "\"1\"", asked),
    ),
    then(
        "a part with another tag",
        "entity tag was \"1\", is \"2\"",
        |file, asked| {
            let mut asked = asked.clone();
            asked.if_range = None;
            Reply::correct(file, "\"2\"", &asked)
        },
    ),
    then(
        "no such range any more",
        "the server has no byte 100000 any more",
        |_, _| Reply::status(416),
    ),
    then("less than the range", "", |file, asked| {
        let (mut reply, from) = (Reply::correct(file, "\"1\"", asked), asked.from.unwrap());
        reply.body.truncate(50_000);
        let end = from + reply.body.len() as u64 - 1;
        reply.headers[0] = format!("Content-Length: {}", reply.body.len());
        reply.headers[1] = format!("Content-Range: bytes {from}-{end}/{LEN}");
        reply
    }),
    then(
        "a range without a place",
        "expected a Content-Range from byte 100000, found none",
        |file, asked| {
            let mut reply = Reply::correct(file, "\"1\"", asked);
            reply.headers.remove(1);
            reply
        },
    ),
    then(
        "a range that is none",
        "expected a Content-Range from byte 100000",
        |file, asked| {
            let mut reply = Reply::correct(file, "\"1\"", asked);
            reply.headers[1] = "Content-Range: bytes 299999-100000/1".to_owned();
            reply
        },
    ),
    then(
        "several parts",
        "was sent multipart/byteranges",
        |file, asked| {
            let reply = Reply::correct(file, "\"1\"", asked);
            reply.header("Content-Type: multipart/byteranges; boundary=x")
        },
    ),
    case("silence", "", |file, asked| match asked.from {
        None => Reply::whole(file, "\"1\"").stalled(100_000),
        Some(_) => Reply::correct(file, "\"1\"", asked),
    }),
    case("chunks that are none", "gave up at byte", |_, _| {
        let mut reply = Reply::new(200, "1000\r\nno chunk\r\n");
        reply.headers[0] = "Transfer-Encoding: chunked".to_owned();
        reply
    }),
    case(
        "a part that nobody asked for",
        "asked for the whole file, was sent a part of it",
        |file, asked| {
            let mut asked = asked.clone();
            asked.from = Some(0);
            Reply::correct(file, "\"1\"", &asked)
        },
    ),
    case(
        "packed on the way",
        "found Content-Encoding gzip",
        |file, asked| Reply::correct(file, "\"1\"", asked).header("Content-Encoding: gzip"),
    ),
    case("redirects for ever", "more than 10 redirects", |_, _| {
        Reply::status(302).header("Location: /image.raw")
    }),
    case("a redirect to another scheme", "127.0.0.1", |_, _| {
        Reply::status(302).header("Location: file:///etc/passwd")
    }),
    case("a head without end", "gave up at byte 0", |file, asked| {
        let mut reply = Reply::correct(file, "\"1\"", asked);
        let many = (0..5000).map(|n| format!("X-{n}: {}", "x".repeat(1000)));
        reply.headers.splice(0..0, many);
        reply
    }),
    case(
        "a body without end",
        "expected at most 67108864 bytes, found more",
        |_, _| {
            let mut reply = Reply::new(200, vec![b'x'; 80 << 20]);
            reply.headers.clear();
            reply
        },
    ),
];

#[test]
fn each_hostile_server_gives_the_file_or_an_error() {
    let file = body(LEN);
    for case in CASES {
        let (name, expected_error, whole) = (case.name, case.expected_error, file.clone());
        let server = Server::start(move |asked| match asked.from {
            None if case.breaks_first => Reply::whole(&whole, "\"1\"").cut(LEN / 3),
            _ => (case.answer)(&whole, asked),
        });
        match got(from(&[&server.url], false)) {
            Ok(bytes) => assert!(expected_error.is_empty() && bytes == file, "{name}"),
            Err(failure) => {
                assert!(!expected_error.is_empty(), "{name}: {failure}");
                for part in [expected_error, &server.url] {
                    assert!(
                        failure.details.contains(part),
                        "{name}: {part} in {failure}"
                    );
                }
            }
        }
        // The Range of each request begins at or after that of the request before it.
        let mut starts = server.asked().into_iter().filter_map(|asked| asked.from);
        assert!(starts.by_ref().is_sorted(), "{name}");
    }
}
