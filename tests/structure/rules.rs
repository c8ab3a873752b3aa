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
    root("lease_broker_model", "src/model", "model"),
    root("lease_broker_sql", "sql", "sql"),
    root("lease_broker_store", "src/store", "store"),
    root("lease_broker_proto", "proto", "proto"),
    root("lease_broker_client", "clients/rust/src", "client"),
    root("lease_broker_bench", "benches/load/src", "bench"),
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
    layer("value", &[]),
    layer("model", &["value"]),
    layer("process", &[]),
    layer("json_object", &[]),
    layer("call_trace", &["model"]),
    layer("span", &["model"]),
    layer("config", &["model", "value"]),
    layer("logging", &["call_trace", "config", "model"]),
    layer("security", &["config", "json_object", "model"]),
    // The messages of the API, and the worker library. They know nothing of the server.
    layer("proto", &["value"]),
    layer("client", &["proto", "value"]),
    // The layers of the server: grpc → broker → store.
    layer("sql", &[]),
    layer("store", &["model", "sql", "value"]),
    layer("why", &["model", "store", "value"]),
    layer("broker", &["call_trace", "config", "model", "span", "store", "value"]),
    layer("grpc", &["broker", "call_trace", "config", "model", "proto", "security", "span", "store", "value", "why"]),
    // They read what the layers count. Only the command line imports them.
    layer("telemetry", &["broker", "config", "grpc", "logging", "model", "process", "security", "span", "store"]),
    layer("admin", &["broker", "config", "grpc", "logging", "model", "proto", "security", "store", "telemetry"]),
    // It starts the layers. Nothing imports it, except the programs and the fuzzing.
    layer("cli", &[
        "admin", "broker", "client", "config", "grpc", "json_object", "logging", "model", "process", "proto", "security", "store",
        "telemetry", "value", "why",
    ]),
    layer("fuzzing", &["cli", "config", "grpc", "model", "proto", "security", "store", "value"]),
    layer("lib", &[]),
    layer("main", &["cli"]),
    layer("bench", &["broker", "cli", "config", "model", "process", "proto", "store"]),
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
            ("admin/pages", "pages show messages and errors of the API"),
            ("bench", "the load generator calls the server"),
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
        ],
        places: &[(
            "telemetry",
            "metrics and spans leave the process only there",
        )],
    },
    CrateRule {
        crates: &["reqwest"],
        places: &[
            ("telemetry", "the exporter takes the client"),
            ("security/jwks_url", "issuers publish their keys over HTTP"),
            ("cli/health", "it asks the admin port"),
        ],
    },
    CrateRule {
        crates: &["opentelemetry_semantic_conventions"],
        places: &[("span/attribute", "the names of attributes")],
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
        crates: &["rustix"],
        places: &[
            (
                "process",
                "what the system says about this process and its files",
            ),
            (
                "store/sqlite/lock_holder",
                "the system knows who holds a lock",
            ),
            ("logging/audit_file", "one process writes the file"),
            ("cli", "commands end the processes that they start"),
            (
                "bench",
                "it ends the brokers that it starts, and raises its own limits",
            ),
        ],
    },
    CrateRule {
        crates: &["sd_notify"],
        places: &[("cli/serve", "the service reports to its service manager")],
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
            "ratatui",
            "strsim",
            "unicode_width",
        ],
        places: &[
            ("cli", "flags, tables and questions of commands"),
            ("bench", "flags and tables of the load generator"),
        ],
    },
];
