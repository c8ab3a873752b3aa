//! Tests of lease ids: the text of known leases, and properties of all ids.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const SECRET: Secret = Secret::new([7; 16]);

static SECRETS: LazyLock<SigningSecrets> = LazyLock::new(|| SigningSecrets::only(SECRET));

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e300..1e300).prop_map(Value::Double),
        any::<String>().prop_map(Value::Text),
        any::<Vec<u8>>().prop_map(Value::Bytes),
        any::<(i64, i32)>().prop_map(|(seconds, nanos)| Value::Timestamp { seconds, nanos }),
        "[0-9]{1,30}".prop_map(Value::Decimal),
    ]
}

fn lease_id() -> impl Strategy<Value = LeaseId> {
    let lease = (
        prop::collection::vec(value(), 1..4),
        any::<u128>(),
        any::<i64>(),
        any::<u32>(),
    );
    let lease = lease.prop_map(|(key, token, fence, attempt)| LeaseRef {
        key: Key(key.into()),
        token: Uuid::from_u128(token),
        fence,
        attempt,
    });
    let producer = any::<(u128, u64)>().prop_map(|(trace_id, span_id)| Span { trace_id, span_id });
    let origin = (
        any::<i64>(),
        any::<u64>(),
        prop::option::of(producer),
        any::<bool>(),
    );
    let origin = origin.prop_map(|(claim_time, millis, producer, sampled)| LeaseOrigin {
        claim_time,
        duration: Duration::from_millis(millis),
        producer,
        sampled,
    });
    (lease, origin).prop_map(|(lease, origin)| LeaseId { lease, origin })
}

fn encode_id(id: &LeaseId) -> String {
    encode(
        &SECRETS,
        "queue",
        &LeaseOwner::default(),
        &id.lease,
        &id.origin,
    )
    .expect("a short key")
}

fn decode_id(text: &str) -> Result<LeaseId, InvalidLeaseId> {
    decode(&SECRETS, "queue", &LeaseOwner::default(), text)
}

/// A lease on the item 123456, claimed in November 2026 for a minute.
fn golden(producer: Option<&str>) -> LeaseId {
    LeaseId {
        lease: LeaseRef {
            key: Key([Value::Int(123_456)].into()),
            token: Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef),
            fence: 3,
            attempt: 2,
        },
        origin: LeaseOrigin::new(1_795_300_000_000, Duration::from_secs(60), producer),
    }
}

/// Returns the context of a lease in a queue that keeps completed items.
fn context_of(id: &LeaseId) -> TraceContext {
    let queue = TracedQueue {
        name: "queue".to_owned(),
        recurs: false,
    };
    trace_context(&SECRET, &queue, &id.lease.key, id.lease.fence, &id.origin)
}

const PRODUCER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

#[test]
fn ids_of_known_leases_never_change() {
    let mut sampled = golden(None);
    sampled.origin.sampled = true;
    let text_key = LeaseId {
        lease: LeaseRef {
            key: Key([Value::Text("Köln".into()), Value::Bytes(vec![0, 255])].into()),
            ..golden(None).lease
        },
        ..sampled.clone()
    };
    for (id, text) in [
        (
            golden(None),
            "AQAAAAEjRWeJq03vgSNFZ4mrze8DAoCC4IGgNODUAwKAiQ_GuDCVDFwdig",
        ),
        (
            sampled,
            "AQAAAQEjRWeJq03vgSNFZ4mrze8DAoCC4IGgNODUAwKAiQ8II0zbHTikgQ",
        ),
        (
            golden(Some(PRODUCER)),
            "AQAAAgEjRWeJq03vgSNFZ4mrze8DAoCC4IGgNODUAwr3ZRkWzUPdhEjrIRyAMZy3rWtxaSAzMQKAiQ_I40d-YOHNEw",
        ),
        (
            text_key,
            "AQAAAQEjRWeJq03vgSNFZ4mrze8DAoCC4IGgNODUAwQFS8O2bG4FAgD_ndxWoYOuh4g",
        ),
    ] {
        assert_eq!(encode_id(&id), text);
        assert_eq!(decode_id(text), Ok(id));
    }
}

#[test]
fn an_id_of_an_integer_key_has_58_characters() {
    assert_eq!(encode_id(&golden(None)).len(), 58);
}

#[test]
fn a_text_of_a_later_version_is_newer() {
    let newer = |version: u8| {
        let mut bytes = [0; 30];
        bytes[0] = version;
        decode_id(&URL_SAFE_NO_PAD.encode(bytes))
    };
    for version in 2..=15 {
        assert_eq!(newer(version), Err(InvalidLeaseId::NewerVersion(version)));
    }
    for version in [0, 1, 16, 255] {
        assert_eq!(newer(version), Err(InvalidLeaseId::Unknown));
    }
    // Shorter than a token and a tag.
    assert_eq!(decode_id("AwAA"), Err(InvalidLeaseId::Unknown));
}

#[test]
fn keys_up_to_the_limit_have_ids() {
    let id = |characters: usize| {
        let key = Value::Text("x".repeat(characters));
        let size = key_bytes([&key]);
        let worst = LeaseOrigin {
            claim_time: -1,
            duration: Duration::from_millis(u64::MAX),
            ..golden(Some(PRODUCER)).origin
        };
        let lease = LeaseRef {
            key: Key([key].into()),
            fence: -1,
            attempt: u32::MAX,
            ..golden(None).lease
        };
        (
            size,
            encode(&SECRETS, "queue", &LeaseOwner::default(), &lease, &worst),
        )
    };
    let (size, text) = id(MAX_KEY_BYTES - 3);
    assert_eq!(size, MAX_KEY_BYTES);
    let text = text.expect("an id");
    assert!(text.len() <= MAX_ID_CHARACTERS);
    assert!(decode_id(&text).is_ok());
    let (_, text) = id(MAX_KEY_BYTES + 20);
    assert_eq!(text, None);
}

#[test]
fn span_continues_the_trace_of_the_producer() {
    let id = golden(Some(PRODUCER));
    let context = context_of(&id);
    let text = context.to_string();
    assert!(text.starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
    assert!(text.ends_with("-00"));
    assert_ne!(text, PRODUCER);
    // The id has all that is needed to compute the span again.
    let read = decode_id(&encode_id(&id)).expect("an id");
    assert_eq!(context_of(&read), context);
}

#[test]
fn ratio_of_the_sampler_is_that_of_recorded_items() {
    let sampler = crate::sampling::Sampler::new(0.01, true);
    let items = 100_000;
    let is_recorded = |key: &i64| {
        let mut id = golden(None);
        id.lease.key = Key([Value::Int(*key)].into());
        sampler.samples(None, context_of(&id).span.trace_id)
    };
    let recorded = (1..=items).filter(is_recorded).count();
    // 1,000, give or take five standard deviations.
    assert!((843..=1_157).contains(&recorded), "{recorded}");
}

#[test]
fn leases_without_a_producer_are_one_trace() {
    let first = golden(Some("malformed"));
    assert_eq!(first, golden(None));
    let mut next = first.clone();
    next.lease.token = Uuid::from_u128(9);
    next.lease.fence = 4;
    let [first, next] = [&first, &next].map(context_of);
    assert!(!first.sampled);
    assert_eq!(next.span.trace_id, first.span.trace_id);
    assert_ne!(next.span.span_id, first.span.span_id);
}

#[test]
fn each_lease_of_a_recurring_queue_is_a_trace() {
    let LeaseId { lease, origin } = golden(None);
    let queue = TracedQueue {
        name: "queue".to_owned(),
        recurs: true,
    };
    let trace = |fence| {
        trace_context(&SECRET, &queue, &lease.key, fence, &origin)
            .span
            .trace_id
    };
    assert_ne!(trace(3), trace(4));
    // A producer's trace has all leases.
    let origin = golden(Some(PRODUCER)).origin;
    let trace = |fence| {
        trace_context(&SECRET, &queue, &lease.key, fence, &origin)
            .span
            .trace_id
    };
    assert_eq!(trace(3), trace(4));
}

proptest! {
    #[test]
    fn lease_ids_decode_to_the_encoded_lease(id in lease_id(), queue: String) {
        let owner = LeaseOwner::default();
        let text = encode(&SECRETS, &queue, &owner, &id.lease, &id.origin).expect("a short key");
        prop_assert_eq!(decode(&SECRETS, &queue, &owner, &text), Ok(id));
    }

    #[test]
    fn exclusive_lease_ids_are_for_their_owner(id in lease_id(), name: String, other: String) {
        prop_assume!(name != other);
        let former = std::slice::from_ref(&name);
        let owner = LeaseOwner::new(&name, &[], true);
        let text = encode(&SECRETS, "queue", &owner, &id.lease, &id.origin).expect("a short key");
        let decoded = |owner: &LeaseOwner| decode(&SECRETS, "queue", owner, &text);
        prop_assert_eq!(decoded(&owner), Ok(id.clone()));
        // The owner was renamed, or the setting was changed.
        prop_assert_eq!(decoded(&LeaseOwner::new(&other, former, true)), Ok(id.clone()));
        prop_assert_eq!(decoded(&LeaseOwner::new(&name, &[], false)), Ok(id));
        let strangers = [LeaseOwner::new(&other, &[], true), LeaseOwner::default()];
        for stranger in strangers {
            prop_assert_eq!(decoded(&stranger), Err(InvalidLeaseId::Unknown));
        }
    }

    #[test]
    fn shared_lease_ids_are_for_every_owner(id in lease_id(), name: String, other: String) {
        let owner = LeaseOwner::new(&name, &[], false);
        let text = encode(&SECRETS, "queue", &owner, &id.lease, &id.origin).expect("a short key");
        for owner in [LeaseOwner::new(&other, &[], true), LeaseOwner::default()] {
            let decoded = decode(&SECRETS, "queue", &owner, &text);
            prop_assert_eq!(decoded.as_ref(), Ok(&id));
        }
    }

    #[test]
    fn request_tokens_differ_between_exclusive_owners(name: String, other: String, id: u128) {
        prop_assume!(name != other);
        let token = |owner: &LeaseOwner| {
            SECRET.token_of_request("queue", owner, "worker", Uuid::from_u128(id))
        };
        let exclusive = |name: &str| token(&LeaseOwner::new(name, &[], true));
        let shared = |name: &str| token(&LeaseOwner::new(name, &[], false));
        prop_assert_ne!(exclusive(&name), exclusive(&other));
        prop_assert_ne!(exclusive(&name), shared(&name));
        prop_assert_eq!(shared(&name), token(&LeaseOwner::default()));
    }

    #[test]
    fn arbitrary_text_is_not_a_lease_id(text: String) {
        prop_assert!(decode_id(&text).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_not_a_lease_id(bytes: Vec<u8>, version in 0..4_u8) {
        let mut bytes = bytes;
        bytes.insert(0, version);
        prop_assert!(decode_id(&URL_SAFE_NO_PAD.encode(bytes)).is_err());
    }

    /// Even with a valid tag, malformed content is refused.
    #[test]
    fn arbitrary_signed_bytes_do_not_panic(content: Vec<u8>, flags in 0..8_u8) {
        let mut bytes = vec![VERSION, 0, QUEUE_SCOPE, flags];
        bytes.extend(content);
        let tag = tag(&SECRET, "queue", (QUEUE_SCOPE, ""), &bytes);
        bytes.extend(tag);
        let _ = decode_id(&URL_SAFE_NO_PAD.encode(bytes));
    }

    #[test]
    fn changed_lease_ids_are_refused(
        id in lease_id(), index: prop::sample::Index, character in "[A-Za-z0-9_=-]"
    ) {
        let text = encode_id(&id);
        let index = index.index(text.len());
        let mut changed = text.clone();
        changed.replace_range(index..=index, &character);
        prop_assume!(changed != text);
        prop_assert!(decode_id(&changed).is_err());
        let mut longer = text.clone();
        longer.push_str(&character);
        prop_assert_eq!(decode_id(&longer), Err(InvalidLeaseId::Unknown));
        prop_assert_eq!(decode_id(&text[..text.len() - 1]), Err(InvalidLeaseId::Unknown));
    }

    #[test]
    fn lease_ids_of_other_queues_or_secrets_are_refused(id in lease_id()) {
        let text = encode_id(&id);
        prop_assert_eq!(decode(&SECRETS, "other", &LeaseOwner::default(), &text), Err(InvalidLeaseId::Unknown));
        let other = SigningSecrets::only(Secret::new([8; 16]));
        prop_assert_eq!(decode(&other, "queue", &LeaseOwner::default(), &text), Err(InvalidLeaseId::Unknown));
    }

    #[test]
    fn trace_context_is_valid_for_any_producer(id in lease_id(), producer: String) {
        let origin = LeaseOrigin::new(0, Duration::ZERO, Some(&producer));
        let context = context_of(&LeaseId { origin, ..id });
        prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
    }

    #[test]
    fn key_bytes_are_an_upper_bound(id in lease_id()) {
        let mut bytes = Vec::new();
        write_key(&mut bytes, &id.lease.key);
        prop_assert!(bytes.len() <= key_bytes(&*id.lease.key.0));
    }
}
