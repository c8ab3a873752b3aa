//! Benchmark of lease ids: the time to encode and to decode 1,000 of them, and to derive their trace contexts.
//!
//! `cargo bench --bench lease_ids`

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use uuid::Uuid;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{
    self, LeaseOrigin, LeaseOwner, LeaseRef, Secret, SigningSecrets, TracedQueue,
};
use lease_broker_value::Value;

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LEASES: i64 = 1_000;
const QUEUE: &str = "default";

fn leases() -> Vec<LeaseRef> {
    let lease = |index| LeaseRef {
        key: Key([Value::Int(123_456 + index)].into()),
        token: Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef),
        fence: 1,
        attempt: 1,
    };
    (0..LEASES).map(lease).collect()
}

fn lease_ids(criterion: &mut Criterion) {
    let secret = Secret::new([7; 16]);
    let secrets = SigningSecrets::only(secret);
    let (leases, owner) = (leases(), LeaseOwner::default());
    let producer = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (name, producer) in [
        ("without_producer", None),
        ("with_producer", Some(producer)),
    ] {
        let mut group = criterion.benchmark_group(format!("lease_ids/{name}"));
        let origin = LeaseOrigin::new(1_795_300_000_000, Duration::from_secs(60), producer);
        let encode = |lease: &LeaseRef| {
            lease_id::encode(&secrets, QUEUE, &owner, lease, &origin).expect("a short key")
        };
        group.bench_function("encode_1000", |bencher| {
            bencher.iter(|| leases.iter().map(encode).map(black_box).for_each(drop));
        });
        let ids: Vec<String> = leases.iter().map(encode).collect();
        group.bench_function("decode_1000", |bencher| {
            let decode =
                |id: &String| lease_id::decode(&secrets, QUEUE, &owner, id).expect("an id");
            bencher.iter(|| ids.iter().map(decode).map(black_box).for_each(drop));
        });
        group.bench_function("trace_contexts_1000", |bencher| {
            let queue = TracedQueue {
                name: QUEUE.to_owned(),
                recurs: false,
            };
            let context = |lease: &LeaseRef| {
                let LeaseRef { key, fence, .. } = lease;
                lease_id::trace_context(&secret, &queue, key, *fence, &origin).to_string()
            };
            bencher.iter(|| leases.iter().map(context).map(black_box).for_each(drop));
        });
        group.finish();
    }
}

criterion_group!(benches, lease_ids);
criterion_main!(benches);
