package com.example.leasebroker;

import com.example.leasebroker.v1.Lease;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.TreeSet;

/** A leased row. */
public final class Item {
  private final Lease lease;

  /** Null until the handler reads a column. Two threads may both translate the columns: the maps are equal. */
  private Map<String, Object> columns;

  Item(Lease lease) {
    this.lease = lease;
  }

  /** Makes an item for the test of a handler. Its first attempt has the fencing token 1. */
  public static Item of(String key, Map<String, ?> columns) {
    return of(key, columns, 1, 1);
  }

  /** Makes an item for the test of a handler. */
  public static Item of(String key, Map<String, ?> columns, int attempt, long fencingToken) {
    var row = com.example.leasebroker.v1.Item.newBuilder().setKey(key).putAllColumns(Values.toProto(columns));
    return new Item(Lease.newBuilder().setItem(row).setAttempt(attempt).setFencingToken(fencingToken).build());
  }

  /** Returns the identity of the row, as the broker writes it. */
  public String key() {
    return lease.getItem().getKey();
  }

  /**
   * Returns the values of the row's columns: Boolean, Long, Double, String, byte[], Instant in UTC or BigDecimal. NULL is null,
   * and present. As in any map, an unknown name has the value null too. The methods below throw for it, and for a value of a
   * newer API, which is an object of another type here.
   */
  public Map<String, Object> columns() {
    Map<String, Object> known = columns;
    if (known == null) {
      known = Values.fromProto(lease.getItem().getColumnsMap());
      columns = known;
    }
    return known;
  }

  /** Returns the number of this attempt, 1 for the first. */
  public int attempt() {
    return lease.getAttempt();
  }

  /** Returns the number of attempts after which a failure makes the item dead. 0: no limit. */
  public int maxAttempts() {
    return lease.getMaxAttempts();
  }

  /** Returns a number that grows with every lease of this row. Systems that you write to can refuse a smaller one. */
  public long fencingToken() {
    return lease.getFencingToken();
  }

  /** Returns the time at which the item became ready, by the database's clock. Empty: not known. */
  public Optional<Instant> readyTime() {
    return lease.hasReadyTime() ? Optional.of(Values.instant(lease.getReadyTime())) : Optional.empty();
  }

  /** Returns the checkpoint that an earlier lease of this item saved last, if there is one. */
  public Optional<byte[]> checkpoint() {
    return lease.hasCheckpoint() ? Optional.of(lease.getCheckpoint().toByteArray()) : Optional.empty();
  }

  /** Returns the W3C trace context of the lease. */
  public String traceParent() {
    return lease.getTraceParent();
  }

  /** True if the column is NULL. An unknown column is an error, here and in the methods below. */
  public boolean isNull(String column) {
    return value(column) == null;
  }

  /** Returns the value of an integer column. NULL and other types are errors too. */
  public long getLong(String column) {
    return typed(column, Long.class);
  }

  /** Returns the value of a floating-point column. */
  public double getDouble(String column) {
    return typed(column, Double.class);
  }

  /** Returns the value of a column that is true or false. */
  public boolean getBoolean(String column) {
    return typed(column, Boolean.class);
  }

  /** Returns the value of a text column. */
  public String getString(String column) {
    return typed(column, String.class);
  }

  /** Returns the value of a column of bytes. */
  public byte[] getBytes(String column) {
    return typed(column, byte[].class);
  }

  /** Returns the value of a column that is a point in time. */
  public Instant getInstant(String column) {
    return typed(column, Instant.class);
  }

  /** Returns the value of a column of exact decimal numbers. */
  public BigDecimal getDecimal(String column) {
    return typed(column, BigDecimal.class);
  }

  private Object value(String column) {
    Map<String, Object> row = columns();
    if (!row.containsKey(column)) {
      throw new NoSuchElementException(
          "no column \"" + column + "\"; the item has " + String.join(", ", new TreeSet<>(row.keySet())));
    }
    Object value = row.get(column);
    if (value instanceof Values.NewerValue) {
      throw new IllegalStateException(value.toString());
    }
    return value;
  }

  private <T> T typed(String column, Class<T> type) {
    Object value = value(column);
    if (value == null) {
      throw new IllegalStateException("column \"" + column + "\" is NULL");
    }
    if (!type.isInstance(value)) {
      throw new IllegalStateException("column \"" + column + "\" has a value of type " + value.getClass().getSimpleName());
    }
    return type.cast(value);
  }
}
