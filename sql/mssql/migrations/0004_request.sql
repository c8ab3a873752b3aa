-- The requests that added items, so that a request that is sent again adds nothing. Published: never changed, only followed by
-- another file. Batches end at lines of GO.

-- One row per Enqueue call with a request id, until expire_time. digest is the SHA-256 hash of the items, in hexadecimal digits.
CREATE TABLE lease_broker_request (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    request_id uniqueidentifier NOT NULL,
    digest char(64) NOT NULL,
    item_count int NOT NULL,
    expire_time datetime2(3) NOT NULL,
    PRIMARY KEY (queue, request_id)
)
GO

-- Expired rows are found by it.
CREATE INDEX lease_broker_request_expiry ON lease_broker_request (expire_time)
GO

-- One row per item of such a call: the key of the item, in up to three columns. item_list and item_position give the order.
CREATE TABLE lease_broker_request_key (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    request_id uniqueidentifier NOT NULL,
    item_list int NOT NULL,
    item_position int NOT NULL,
    k1 sql_variant NOT NULL,
    k2 sql_variant NULL,
    k3 sql_variant NULL,
    PRIMARY KEY (queue, request_id, item_list, item_position)
)
