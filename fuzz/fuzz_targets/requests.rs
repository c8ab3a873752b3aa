#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lease_broker::fuzzing::requests(data, peak));

fn peak(work: &mut dyn FnMut()) -> usize {
    usize::try_from(allocation_counter::measure(work).bytes_max).unwrap_or(usize::MAX)
}
