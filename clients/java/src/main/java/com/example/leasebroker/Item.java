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
  private final String key;
  private final Map<String, Object> columns;
  private final int attempt;
  private final int maxAttempts;
  private final long fencingToken;
  private final Instant readyTime;
  private final byte[] checkpoint;
  private final String traceParent;

  Item(Lease lease) {
    key = lease.getItem().getKey();
    columns = Values.fromProto(lease.getItem().getColumnsMap());
    attempt = lease.getAttempt();
    maxAttempts = lease.getMaxAttempts();
    fencingToken = lease.getFencingToken();
    readyTime = lease.hasReadyTime() ? Values.instant(lease.getReadyTime()) : null;
    checkpoint = lease.hasCheckpoint() ? lease.getCheckpoint().toByteArray() : null;
    traceParent = lease.getTraceParent();
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
    return key;
  }

  /**
   * Returns the values of the row's columns: Boolean, Long, Double, String, byte[], Instant in UTC or BigDecimal. NULL is null,
   * and present. As in any map, an unknown name has the value null too. The methods below throw for it, and for a value of a
   * newer API, which is an object of another type here.
   */
  public Map<String, Object> columns() {
    return columns;
  }

  /** Returns the number of this attempt, 1 for the first. */
  public int attempt() {
    return attempt;
  }

  /** Returns the number of attempts after which a failure makes the item dead. 0: no limit. */
  public int maxAttempts() {
    return maxAttempts;
  }

  /** Returns a number that grows with every lease of this row. Systems that you write to can refuse a smaller one. */
  public long fencingToken() {
    return fencingToken;
  }

  /** Returns the time at which the item became ready, by the database's clock. Empty: not known. */
  public Optional<Instant> readyTime() {
    return Optional.ofNullable(readyTime);
  }

  /** Returns the checkpoint that an earlier lease of this item saved last, if there is one. */
  public Optional<byte[]> checkpoint() {
    return Optional.ofNullable(checkpoint).map(byte[]::clone);
  }

  /** Returns the W3C trace context of the lease. */
  public String traceParent() {
    return traceParent;
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
    if (!columns.containsKey(column)) {
      throw new NoSuchElementException(
          "no column \"" + column + "\"; the item has " + String.join(", ", new TreeSet<>(columns.keySet())));
    }
    Object value = columns.get(column);
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
