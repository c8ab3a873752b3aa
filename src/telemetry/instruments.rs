//! The declaration of every instrument: name, unit, description.
//!
//! Names follow the OpenTelemetry semantic conventions, version 1.42.0: <https://opentelemetry.io/schemas/1.42.0>.
//! Prometheus shows them with `_` in place of dots, and appends the unit and, for a counter, `_total`. A name therefore
//! contains neither.

/// An instrument's name, unit and description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instrument {
    pub(super) name: &'static str,
    /// A unit of UCUM, such as `s` and `By`, or an annotation such as `{item}`. `""`: none.
    pub(super) unit: &'static str,
    pub(super) description: &'static str,
}

macro_rules! instruments {
    ($($constant:ident $name:literal $unit:literal $description:literal)*) => {
        $(
            pub(super) const $constant: Instrument = Instrument {
                name: $name,
                unit: $unit,
                description: $description,
            };
        )*
    };
}

instruments! {
    CALLS "lease_broker.statement.calls" "{call}" "Calls that store operations served"
    STATEMENTS "lease_broker.statements" "{statement}" "Store operations started"
    ITEMS_SERVED "lease_broker.statement.items" "{item}" "Items in the results of store operations"
    STORE_UP "lease_broker.store.up" "" "1 while the store is healthy, otherwise 0"

    LOG_LINES "lease_broker.log.lines" "{line}" "Log lines that were not written, by the reason"

    CPU_TIME "process.cpu.time" "s" "CPU time that the process has used"
    MEMORY_USAGE "process.memory.usage" "By" "Memory that the process uses"
    OPEN_FILE_DESCRIPTORS "process.open_file_descriptors" "{file_descriptor}" "File descriptors that the process has open"
    UPTIME "process.uptime" "s" "Time since the process started"
}
