//! The rules, as tables.

/// A crate of this repository.
pub(crate) struct Root {
    /// The name by which other crates import it.
    pub(crate) crate_name: &'static str,
    /// The folder of its source.
    pub(crate) folder: &'static str,
    /// The place of its root in the tree of modules, with `/` between names. Empty: the root of the tree. A folder of `src` that
    /// becomes a crate keeps its place, so that the other tables do not change:
    /// `Root { crate_name: "lease_broker_store", folder: "crates/store/src", module: "store" }`.
    pub(crate) module: &'static str,
}

const fn root(crate_name: &'static str, folder: &'static str, module: &'static str) -> Root {
    Root {
        crate_name,
        folder,
        module,
    }
}

impl Root {
    /// Returns the path of the root in the tree of modules.
    pub(crate) fn module_path(&self) -> Vec<String> {
        let names = self.module.split('/').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }
}

/// The crates whose source is checked.
pub(crate) const ROOTS: &[Root] = &[
    root("lease_broker", "src", ""),
    root("lease_broker_value", "src/value", "value"),
    root("lease_broker_proto", "proto", "proto"),
    root("lease_broker_client", "clients/rust/src", "client"),
];

/// A module at the top of the source, and the modules that it may import.
pub(crate) struct Layer {
    pub(crate) module: &'static str,
    pub(crate) imports: &'static [&'static str],
}

const fn layer(module: &'static str, imports: &'static [&'static str]) -> Layer {
    Layer { module, imports }
}

/// Each module imports only modules that stand before it.
#[rustfmt::skip]
pub(crate) const LAYERS: &[Layer] = &[
    // Words that all layers share.
    layer("call_source", &[]),
    layer("item_state", &[]),
    layer("process", &[]),
    layer("text", &[]),
    layer("trace_context", &[]),
    layer("value", &[]),
    layer("call_trace", &["trace_context"]),
    layer("lease_id", &["trace_context", "value"]),
    layer("lease_trace", &["lease_id", "trace_context"]),
    layer("queue", &["item_state", "value"]),
    layer("sampling", &["trace_context"]),
    layer("span", &["trace_context"]),
    layer("config", &["item_state", "queue", "sampling", "value"]),
    layer("logging", &["call_trace", "config", "text"]),
    layer("security", &["call_source", "config", "lease_id"]),
    // The messages of the API, and the worker library. They know nothing of the server.
    layer("proto", &["value"]),
    layer("client", &["proto", "value"]),
    // The layers of the server: grpc → broker → store.
    layer("store", &["item_state", "lease_id", "lease_trace", "queue", "text", "trace_context", "value"]),
    layer("why", &["item_state", "queue", "store", "text", "value"]),
    layer("broker", &[
        "call_source", "call_trace", "config", "item_state", "lease_id", "lease_trace", "queue", "sampling", "span", "store",
        "text", "trace_context", "value",
    ]),
    layer("grpc", &[
        "broker", "call_source", "call_trace", "config", "item_state", "lease_id", "proto", "sampling", "security", "span",
        "store", "text", "trace_context", "value",
    ]),
    // They read what the layers count. Only the command line imports them.
    layer("telemetry", &[
        "broker", "config", "grpc", "item_state", "lease_trace", "logging", "process", "queue", "span", "store",
        "trace_context",
    ]),
    layer("admin", &["broker", "config", "item_state", "logging", "queue", "store", "telemetry"]),
    // It starts the layers. Nothing imports it, except the program and the fuzzing.
    layer("cli", &[
        "admin", "broker", "client", "config", "grpc", "item_state", "logging", "process", "proto", "queue", "security",
        "store", "telemetry", "text", "value", "why",
    ]),
    layer("fuzzing", &["cli", "config", "grpc", "lease_id", "proto", "security", "store", "value"]),
    layer("lib", &[]),
    layer("main", &["cli"]),
];

/// External crates, and the modules that may name them.
pub(crate) struct CrateRule {
    pub(crate) crates: &'static [&'static str],
    /// A module, with `/` between names, and why it names the crates.
    pub(crate) places: &'static [(&'static str, &'static str)],
}

/// A crate that no rule has may be named everywhere.
pub(crate) const CRATES: &[CrateRule] = &[
    CrateRule {
        crates: &[
            "tonic",
            "tonic_health",
            "tonic_prost",
            "tonic_types",
            "prost",
            "prost_types",
        ],
        places: &[
            ("proto", "the generated messages"),
            ("grpc", "the server"),
            ("client", "the worker library calls the server"),
            ("cli", "commands call the server"),
            ("fuzzing", "it decodes messages as the server does"),
            (
                "telemetry/otlp",
                "the exporter takes TLS settings and headers as tonic's types",
            ),
        ],
    },
    CrateRule {
        crates: &["tonic_reflection"],
        places: &[("grpc", "the server describes its API")],
    },
    CrateRule {
        crates: &["rusqlite"],
        places: &[
            ("store/sqlite", "the store on SQLite"),
            (
                "cli/demo",
                "the demo writes to the table in the role of another program",
            ),
        ],
    },
    CrateRule {
        crates: &["tiberius", "deadpool"],
        places: &[("store/mssql", "the store on SQL Server")],
    },
    CrateRule {
        crates: &[
            "opentelemetry",
            "opentelemetry_otlp",
            "opentelemetry_prometheus",
            "opentelemetry_sdk",
            "prometheus",
            "reqwest",
        ],
        places: &[(
            "telemetry",
            "metrics and spans leave the process only there",
        )],
    },
    CrateRule {
        crates: &["axum"],
        places: &[("admin", "the admin port")],
    },
    CrateRule {
        crates: &["jsonwebtoken", "webpki"],
        places: &[("security", "tokens and certificates")],
    },
    CrateRule {
        crates: &["tracing_appender"],
        places: &[("logging", "the log is written only there")],
    },
    CrateRule {
        crates: &[
            "clap",
            "clap_complete",
            "comfy_table",
            "csv",
            "dialoguer",
            "hdrhistogram",
            "indicatif",
            "strsim",
        ],
        places: &[
            ("cli", "flags, tables and questions of commands"),
            ("main", "the program parses the command line"),
        ],
    },
];
