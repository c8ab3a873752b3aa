//! Runs the entry points with the files of `fuzz/corpus`, and with random changes of them. The seed is printed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The number of changed inputs for each entry point.
const ROUNDS: usize = 2_000;
/// The longest input. Longer ones find little more, and take long.
const MAX_BYTES: usize = 4_096;

/// Returns the files of a target's corpus, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let files = std::fs::read_dir(&folder).expect("the corpus exists");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path: PathBuf| std::fs::read(path).expect("the file is read");
    paths.into_iter().map(read).collect()
}

/// Changes an input: replaces, inserts or removes bytes, or continues with a part of another input.
fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut StdRng) {
    const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'[', b'\n'];
    let place = random.random_range(0..=input.len());
    match random.random_range(0..5) {
        0 if place < input.len() => input[place] ^= 1 << random.random_range(0..8),
        1 if place < input.len() => input[place] = EDGES[random.random_range(0..EDGES.len())],
        2 => input.insert(place, random.random()),
        3 => {
            let end = (place + random.random_range(0..20)).min(input.len());
            input.drain(place..end);
        }
        _ => {
            let other = &corpus[random.random_range(0..corpus.len())];
            let from = random.random_range(0..=other.len());
            input.truncate(place);
            input.extend(&other[from..]);
        }
    }
    input.truncate(MAX_BYTES);
}

fn run(target: &str, entry_point: impl Fn(&[u8])) {
    let seed: u64 = rand::random();
    eprintln!("{target}: seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let corpus = corpus(target);
    for input in &corpus {
        entry_point(input);
    }
    for _ in 0..ROUNDS {
        let mut input = corpus[random.random_range(0..corpus.len())].clone();
        for _ in 0..random.random_range(1..6) {
            change(&mut input, &corpus, &mut random);
        }
        // Only a failed test shows the input.
        eprintln!("{}", input.escape_ascii());
        entry_point(&input);
    }
}

/// Writes the tests of the entry points that take only the input.
macro_rules! tests {
    ($($test:ident($target:ident),)*) => {$(
        #[test]
        fn $test() {
            run(stringify!($target), super::$target);
        }
    )*};
}

tests! {
    lease_ids_withstand_random_input(lease_ids),
    configuration_withstands_random_input(configuration),
    values_withstand_random_input(values),
    json_import_withstands_random_input(json_import),
    csv_import_withstands_random_input(csv_import),
    split_requests_withstand_random_input(split_requests),
    message_counter_withstands_random_input(message_counter),
    grpc_timeout_withstands_random_input(grpc_timeout),
    traceparent_withstands_random_input(traceparent),
    jwks_withstand_random_input(jwks),
    jwt_withstands_random_input(jwt),
    tokens_file_withstands_random_input(tokens_file),
    spiffe_names_withstand_random_input(spiffe_names),
    connection_string_withstands_random_input(connection_string),
}

#[test]
fn requests_withstand_random_input() {
    run("requests", |data| super::requests(data, peak));
}

fn peak(work: &mut dyn FnMut()) -> usize {
    let bytes = allocation_counter::measure(work).bytes_max;
    usize::try_from(bytes).expect("a size")
}

/// Returns the names of the files or folders in a folder of `fuzz/`, without their endings.
fn names(folder: &str) -> BTreeSet<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz")
        .join(folder);
    let entries = std::fs::read_dir(&folder).expect("a folder");
    let name = |path: PathBuf| {
        path.file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    };
    entries
        .map(|entry| name(entry.expect("an entry").path()))
        .collect()
}

#[test]
fn every_target_has_a_corpus_a_test_and_a_line() {
    let targets = names("fuzz_targets");
    assert_eq!(targets, names("corpus"));
    let manifest = include_str!("../../fuzz/Cargo.toml");
    let tests = include_str!("tests.rs");
    for target in targets {
        assert!(
            manifest.contains(&format!("name = \"{target}\"\n")),
            "{target} is not built"
        );
        assert!(
            tests.contains(&format!("_random_input({target}),\n"))
                || tests.contains(&format!("run(\"{target}\"")),
            "{target} has no test"
        );
        assert!(
            include_str!("../../fuzz/README.md").contains(&format!("`{target}`")),
            "{target} is not documented"
        );
    }
}
