-- The brokers that run. Published: never changed, only followed by another file. Batches end at lines of GO.

-- One row per broker process, by its random id. The broker writes seen_time every 5 s. `settings` is a JSON object with hashes of
-- the settings of each queue, by the queue's name. Rows that are a day old are deleted.
CREATE TABLE lease_broker_instance (
    id uniqueidentifier NOT NULL PRIMARY KEY,
    version varchar(64) NOT NULL,
    address nvarchar(300) NOT NULL,
    start_time datetime2(3) NOT NULL,
    seen_time datetime2(3) NOT NULL,
    draining bit NOT NULL,
    settings nvarchar(max) NOT NULL
)
