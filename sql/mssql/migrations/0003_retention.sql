-- The turns of retention. Published: never changed, only followed by another file. Batches end at lines of GO.

-- One row per queue with keep_for. Until until_time only the holder, one broker, deletes old items of the queue.
CREATE TABLE lease_broker_retention (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY,
    holder uniqueidentifier NOT NULL,
    until_time datetime2(3) NOT NULL
)
