-- The turns of retention. Published: never changed, only followed by another file.

-- One row per queue with keep_for. Until until_time (ms since 1970) only the holder, one broker, deletes old items of the queue.
CREATE TABLE lease_broker_retention (
    queue TEXT PRIMARY KEY NOT NULL,
    holder BLOB NOT NULL,
    until_time INTEGER NOT NULL
) WITHOUT ROWID;
