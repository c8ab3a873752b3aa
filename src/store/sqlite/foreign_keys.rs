//! Reads the foreign keys that refer to a queue's table.

use rusqlite::Connection;

use crate::StoreError;
use crate::foreign_keys::{ForeignKey, OnDelete};

/// Reads the table and the action of each foreign key that refers to table `?1`. `seq` numbers the columns of one key.
const FOREIGN_KEYS: &str = "SELECT t.name, f.on_delete
FROM sqlite_schema AS t, pragma_foreign_key_list(t.name) AS f
WHERE t.type = 'table' AND f.\"table\" = ?1 COLLATE NOCASE AND f.seq = 0
ORDER BY t.name, f.id";

/// Returns the foreign keys that refer to `table`.
pub(super) fn read(connection: &Connection, table: &str) -> Result<Vec<ForeignKey>, StoreError> {
    let mut statement = connection.prepare(FOREIGN_KEYS)?;
    let keys = statement.query_map([table], |row| {
        let on_delete: String = row.get(1)?;
        Ok(ForeignKey {
            table: row.get(0)?,
            name: None,
            on_delete: match &*on_delete {
                "CASCADE" => OnDelete::Cascade,
                "SET NULL" | "SET DEFAULT" => OnDelete::Change,
                _ => OnDelete::Refuse,
            },
        })
    })?;
    Ok(keys.collect::<Result<_, _>>()?)
}
