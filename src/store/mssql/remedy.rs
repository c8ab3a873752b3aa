//! The reaction of the broker to each error of the server. Sources: Microsoft's lists of database engine errors, of
//! transient errors of Azure SQL, and of availability group errors.

use std::io::ErrorKind;
use std::ops::RangeInclusive;

use tiberius::error::Error;

/// The reaction to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Run the operation again on the same connection. The server has applied none of it.
    Retry,
    /// Open another connection and run the operation again there. The first run may have been applied, and the new
    /// connection may reach another server.
    Reconnect,
    /// Ask the caller to retry later. The server has no space, or its database is starting. Nothing was applied.
    Wait,
    /// Ask the caller to retry later. The server has found damage in the database, or has failed itself, and has ended the connection.
    /// Another connection would meet the same.
    Damaged,
    /// Reject the request. A constraint refuses one of its rows.
    Refuse,
    /// Fail until someone changes the schema, the login or the configuration.
    Misconfigured,
    /// Fail. The broker has sent a statement that it should never send.
    Bug,
}

/// The error numbers for each reaction.
const REMEDIES: &[(Remedy, &[u32])] = &[
    // Deadlock victim, lock timeout, snapshot conflict, out of locks. 51222: the application lock of the queue was not
    // free (claim.sql). 51224: another statement changed the same rows (settle.sql, reap.sql). No memory or no time to compile or
    // run the statement. A row of a temporal table that a later transaction has already changed. 4184: a filtered index
    // changed while the statement was compiled. 8179: an unknown handle (prepared.rs). 601: the row moved during a read without
    // locks (why.sql).
    (
        Remedy::Retry,
        &[
            1205, 1222, 3960, 1204, 51222, 51224, 701, 802, 8628, 8645, 8651, 13535, 4184, 8179,
            601,
        ],
    ),
    // The statement or the transaction can simply be run again: 10922 and 20041 say so, 3966 lost its row versions, 9515 its XML schema.
    // 1807, 3935, 14355, 49977 and 49983: a service of the server was not ready.
    (
        Remedy::Retry,
        &[10922, 20041, 3966, 9515, 1807, 3935, 14355, 49977, 49983],
    ),
    // Memory-optimized tables: the commit depends on a transaction that failed, conflicts with another transaction, or
    // has too many dependencies.
    (Remedy::Retry, &[41301, 41302, 41305, 41325, 41839]),
    // Azure SQL: the database was moved, paused or reconfigured, or the session was ended because it used too many
    // resources. 40623: the login was changed, and Azure SQL asks for a new one.
    (
        Remedy::Reconnect,
        &[
            4060, 40143, 40166, 40197, 40540, 40613, 42108, 42109, 4221, 615, 926, 40549, 40550,
            40551, 40552, 40553, 40623,
        ],
    ),
    // Availability groups: this replica is not, or not yet, the primary, or it is read-only. The session was killed.
    // The server is shutting down or starting. 17197: it was too busy to finish a login.
    (
        Remedy::Reconnect,
        &[
            976, 978, 979, 982, 983, 988, 3906, 596, 6005, 6006, 17142, 17197, 18401, 18451,
        ],
    ),
    // The database is in emergency mode.
    (Remedy::Reconnect, &[3908]),
    // The session has lost track of a table's metadata, of a latch or of a lock, the log reader has failed, or the
    // previous batch of the session was aborted. Most of them have class 20 or higher, which ends the connection.
    (Remedy::Reconnect, &[617, 669, 1203, 1221, 3980, 9020]),
    // 8623: the server found no plan.
    // The log or a filegroup is full or offline. The database is being recovered or restored, is offline, or is in
    // single-user mode (18461: the server is).
    (
        Remedy::Wait,
        &[
            9002, 1101, 1105, 667, 670, 921, 922, 924, 927, 942, 945, 952, 18461, 8623,
        ],
    ),
    // Azure SQL throttles requests or has no resources for the database.
    (
        Remedy::Wait,
        &[
            10928, 10929, 10930, 10936, 40189, 40501, 40544, 40642, 40648, 40675, 49802, 49918,
            49919, 49920,
        ],
    ),
    // Unique key, primary key, NOT NULL, CHECK and foreign key, truncation, conversion, arithmetic, identity, computed
    // column. A trigger that ended the transaction. (Errors that a trigger raises itself have numbers from 50000.)
    // 33504: a block predicate of row-level security. 37359: the table is an append-only ledger.
    // 13609: a text that is no JSON.
    (
        Remedy::Refuse,
        &[
            2601, 2627, 515, 547, 2628, 8152, 245, 8114, 241, 242, 8115, 220, 232, 296, 517, 544,
            271, 3609, 8169, 13536, 33504, 37359, 13609,
        ],
    ),
    // Login, firewall, network rules, database, permission.
    (
        Remedy::Misconfigured,
        &[
            18456, 18452, 18470, 18486, 18487, 18488, 40532, 40615, 40914, 47073, 4064, 916, 229,
            230, 262, 300,
        ],
    ),
    // A missing object or column. READPAST under SNAPSHOT. A table or an index that does not support a hint. A
    // read-only filegroup. SET options of a filtered index. No OPENJSON. A column definition in the configuration with
    // an unknown type or a syntax error. A name that is too long, or a row that is too wide.
    (
        Remedy::Misconfigured,
        &[
            1088, 2760, 3701, 4902, 15151, 15247, 208, 207, 213, 308, 315, 650, 651, 652, 8622,
            1934, 195, 10794, 12317, 102, 103, 105, 156, 1701, 2715,
        ],
    ),
];

/// Errors of [`FATAL_CLASS`] and higher that name damage: a page that cannot be read or has the wrong content, an assertion of the server
/// that failed, a log that is not available.
const DAMAGE: [u32; 5] = [605, 823, 824, 3624, 9001];

/// The errors of the parser of XML, and of the validation of typed XML. Each refuses a value.
const XML: [RangeInclusive<u32>; 2] = [9_400..=9_499, 6_900..=6_999];

/// The lowest number of errors that users' own SQL raises, for example in a trigger.
pub(super) const FIRST_USER_ERROR: u32 = 50_000;
/// The number that Babelfish gives to each `PostgreSQL` error without a SQL Server number.
pub(super) const UNMAPPED: u32 = 33_557_097;
/// The lowest class of errors that end the connection.
pub(super) const FATAL_CLASS: u8 = 20;
/// The lowest class of errors that no user can correct: the server lacks a resource or has failed (Microsoft's
/// documentation of "Database Engine error severities").
const SERVER_CLASS: u8 = 17;

/// The reactions to errors with the number [`UNMAPPED`], by a part of the message. The first match counts.
const UNMAPPED_REMEDIES: &[(Remedy, &[&str])] = &[
    // The last three: another session dropped or changed an object while the catalogue was read.
    (
        Remedy::Retry,
        &[
            "lock timeout",
            "deadlock",
            "serialize",
            "with OID",
            "cache lookup failed",
            "concurrently",
        ],
    ),
    // The server is starting, shutting down or in recovery, and refuses logins. Or it ends a session, for example because
    // another session crashed.
    (
        Remedy::Reconnect,
        &[
            "the database system is",
            "terminating connection",
            "read-only transaction",
        ],
    ),
    // The disk or the memory is full, or too many sessions are open.
    (
        Remedy::Wait,
        &[
            "No space left on device",
            "out of memory",
            "could not extend file",
            "could not write",
            "too many clients",
            "remaining connection slots",
        ],
    ),
    (Remedy::Damaged, &["invalid page", "could not read block"]),
    // The broker's own SQL has no syntax errors. A column type in the configuration can have one.
    (
        Remedy::Misconfigured,
        &["does not exist", "syntax error", "permission denied"],
    ),
    (
        Remedy::Refuse,
        &[
            "violates",
            "invalid input",
            "too long",
            "out of range",
            "overflow",
        ],
    ),
];

/// Returns the reaction to an error.
pub(super) fn remedy(error: &Error) -> Remedy {
    match error {
        Error::Server(token) => remedy_of(token.code(), token.class(), token.message()),
        // A file that the configuration names, such as a token or a certificate, cannot be read.
        Error::Io {
            kind: ErrorKind::NotFound | ErrorKind::PermissionDenied,
            ..
        }
        | Error::Tls(_) => Remedy::Misconfigured,
        // The driver and the server cannot agree on encryption.
        Error::Protocol(text) if text.contains("ncryption") => Remedy::Misconfigured,
        Error::Io { .. } | Error::Routing { .. } | Error::Protocol(_) => Remedy::Reconnect,
        _ => Remedy::Bug,
    }
}

/// Returns the reaction to an error that occurred before the connection was ready. No statement of an operation was sent
/// yet, so an unknown error is never a mistake in one.
pub(super) fn remedy_while_connecting(error: &Error) -> Remedy {
    match remedy(error) {
        Remedy::Bug | Remedy::Refuse => Remedy::Reconnect,
        known => known,
    }
}

fn remedy_of(number: u32, class: u8, message: &str) -> Remedy {
    let known = if number == UNMAPPED {
        remedy_of_unmapped(message)
    } else {
        remedy_of_number(number)
    };
    match known {
        Some(remedy) => remedy,
        None if class >= FATAL_CLASS && DAMAGE.contains(&number) => Remedy::Damaged,
        None if class >= FATAL_CLASS => Remedy::Reconnect,
        None if number >= FIRST_USER_ERROR && number != UNMAPPED => Remedy::Refuse,
        None if class >= SERVER_CLASS => Remedy::Wait,
        None => Remedy::Bug,
    }
}

fn remedy_of_number(number: u32) -> Option<Remedy> {
    let mut remedies = REMEDIES.iter();
    let listed = remedies.find(|(_, numbers)| numbers.contains(&number));
    let is_xml = XML.iter().any(|numbers| numbers.contains(&number));
    let of_xml = is_xml.then_some(Remedy::Refuse);
    listed.map(|(remedy, _)| *remedy).or(of_xml)
}

fn remedy_of_unmapped(message: &str) -> Option<Remedy> {
    let mut remedies = UNMAPPED_REMEDIES.iter();
    let listed = remedies.find(|(_, parts)| parts.iter().any(|part| message.contains(part)));
    listed.map(|(remedy, _)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_number_has_one_remedy() {
        let mut numbers: Vec<u32> = REMEDIES
            .iter()
            .flat_map(|(_, numbers)| *numbers)
            .copied()
            .collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    #[test]
    fn trigger_errors_are_refused_and_unknown_ones_bugs() {
        assert_eq!(remedy_of(50_000, 16, "no"), Remedy::Refuse);
        assert_eq!(remedy_of(51_234, 18, "no"), Remedy::Refuse);
        assert_eq!(remedy_of(9_999, 16, "unheard of"), Remedy::Bug);
    }

    #[test]
    fn unknown_error_of_a_high_class_is_an_outage() {
        assert_eq!(remedy_of(9_999, 17, "unheard of"), Remedy::Wait);
        assert_eq!(remedy_of(9_999, 20, "unheard of"), Remedy::Reconnect);
        assert_eq!(remedy_of(50_000, 20, "no"), Remedy::Reconnect);
        assert_eq!(remedy_of(UNMAPPED, 17, "unheard of"), Remedy::Wait);
    }

    #[test]
    fn damage_is_an_outage_only_if_it_ends_the_connection() {
        assert_eq!(remedy_of(823, 24, "no"), Remedy::Damaged);
        assert_eq!(remedy_of(605, 21, "no"), Remedy::Damaged);
        // A read without locks.
        assert_eq!(remedy_of(605, 12, "no"), Remedy::Bug);
    }

    #[test]
    fn unmapped_error_is_classified_by_its_text() {
        for (message, remedy) in [
            ("canceling statement due to lock timeout", Remedy::Retry),
            ("the database system is in recovery mode", Remedy::Reconnect),
            (
                "terminating connection due to administrator command",
                Remedy::Reconnect,
            ),
            (
                "cannot execute UPDATE in a read-only transaction",
                Remedy::Reconnect,
            ),
            (
                "could not write to file \"base/pgsql_tmp/x\": No space left on device",
                Remedy::Wait,
            ),
            ("out of memory", Remedy::Wait),
            (
                "invalid page in block 7 of relation base/1/2",
                Remedy::Damaged,
            ),
            ("relation \"x\" does not exist", Remedy::Misconfigured),
            (
                "permission denied for schema work_dbo",
                Remedy::Misconfigured,
            ),
            ("could not open relation with OID 20817", Remedy::Retry),
            ("relation with OID 20817 does not exist", Remedy::Retry),
            ("cache lookup failed for relation 20817", Remedy::Retry),
            ("tuple concurrently deleted", Remedy::Retry),
            ("new row violates check constraint", Remedy::Refuse),
            ("unheard of", Remedy::Bug),
        ] {
            assert_eq!(remedy_of(UNMAPPED, 16, message), remedy, "{message}");
        }
    }
}
