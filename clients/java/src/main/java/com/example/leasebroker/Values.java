package com.example.leasebroker;

import com.example.leasebroker.v1.ColumnValue;
import com.google.protobuf.ByteString;
import com.google.protobuf.NullValue;
import com.google.protobuf.Timestamp;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Translates between the values of columns and Java's types: Boolean, Long, Double, String, byte[], Instant, BigDecimal, and
 * null for NULL. Smaller types of numbers are accepted too.
 */
final class Values {
  /** Stands for a value of a kind that this library does not know. It is not NULL. */
  record NewerValue(String column) {
    @Override
    public String toString() {
      return "column \"" + column + "\" has a value of a newer API";
    }
  }

  /** The longest duration of the API, 366 days, in nanoseconds. Longer ones are cut: a sum of moments must not overflow. */
  static final long LONGEST = 366 * 24 * 3_600 * Clock.SECOND;

  /** More digits than a column of a database has. */
  private static final int MAX_DIGITS = 1_000;

  private static final Instant FIRST_YEAR = Instant.parse("0001-01-01T00:00:00Z");
  private static final Instant AFTER_LAST_YEAR = Instant.parse("+10000-01-01T00:00:00Z");

  private Values() {}

  static Map<String, ColumnValue> toProto(Map<String, ?> row) {
    Map<String, ColumnValue> values = new LinkedHashMap<>();
    row.forEach((column, value) -> values.put(column, toProto(column, value)));
    return values;
  }

  static ColumnValue toProto(String column, Object value) {
    ColumnValue.Builder message = ColumnValue.newBuilder();
    if (value == null) {
      return message.setNullValue(NullValue.NULL_VALUE).build();
    } else if (value instanceof Boolean truth) {
      return message.setBoolValue(truth).build();
    } else if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
      return message.setInt64Value(((Number) value).longValue()).build();
    } else if (value instanceof Double || value instanceof Float) {
      if (Double.isNaN(((Number) value).doubleValue())) {
        throw new IllegalArgumentException("column \"" + column + "\": NaN is not a number");
      }
      return message.setDoubleValue(((Number) value).doubleValue()).build();
    } else if (value instanceof String text) {
      if (!isWellFormed(text)) {
        throw new IllegalArgumentException("column \"" + column + "\": the text has half of a surrogate pair, which UTF-8 cannot hold");
      }
      return message.setStringValue(text).build();
    } else if (value instanceof byte[] bytes) {
      return message.setBytesValue(ByteString.copyFrom(bytes)).build();
    } else if (value instanceof Instant instant) {
      if (instant.isBefore(FIRST_YEAR) || !instant.isBefore(AFTER_LAST_YEAR)) {
        throw new IllegalArgumentException("column \"" + column + "\": the moment " + instant + " is outside the years 0001 to 9999");
      }
      Timestamp time = Timestamp.newBuilder().setSeconds(instant.getEpochSecond()).setNanos(instant.getNano()).build();
      return message.setTimestampValue(time).build();
    } else if (value instanceof BigDecimal number) {
      // A short number with a large exponent has a text that fills the memory.
      if (number.precision() > MAX_DIGITS || Math.abs((long) number.scale()) > MAX_DIGITS) {
        throw new IllegalArgumentException("column \"" + column + "\": the decimal number has more than " + MAX_DIGITS + " digits");
      }
      return message.setDecimalValue(number.toPlainString()).build();
    }
    throw new IllegalArgumentException("column \"" + column + "\": " + value.getClass().getName() + " is not a type of a column");
  }

  /** False if a surrogate has no partner. */
  private static boolean isWellFormed(String text) {
    for (int i = 0; i < text.length(); i++) {
      if (Character.isSurrogate(text.charAt(i)) && Character.charCount(text.codePointAt(i++)) == 1) {
        return false;
      }
    }
    return true;
  }

  static Map<String, Object> fromProto(Map<String, ColumnValue> values) {
    Map<String, Object> row = new LinkedHashMap<>();
    values.forEach((column, value) -> row.put(column, fromProto(column, value)));
    return Collections.unmodifiableMap(row);
  }

  static Object fromProto(String column, ColumnValue value) {
    return switch (value.getKindCase()) {
      case BOOL_VALUE -> value.getBoolValue();
      case INT64_VALUE -> value.getInt64Value();
      case DOUBLE_VALUE -> value.getDoubleValue();
      case STRING_VALUE -> value.getStringValue();
      case BYTES_VALUE -> value.getBytesValue().toByteArray();
      case TIMESTAMP_VALUE -> instant(value.getTimestampValue());
      case DECIMAL_VALUE -> new BigDecimal(value.getDecimalValue());
      case NULL_VALUE -> null;
      case KIND_NOT_SET -> new NewerValue(column);
    };
  }

  static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }

  /** Returns the message for a duration. A negative one becomes zero, and one above {@link #LONGEST} is cut: the broker refuses them. */
  static com.google.protobuf.Duration duration(Duration given) {
    Duration duration = Duration.ofNanos(Math.max(nanos(given), 0));
    return com.google.protobuf.Duration.newBuilder().setSeconds(duration.getSeconds()).setNanos(duration.getNano()).build();
  }

  static long nanos(com.google.protobuf.Duration duration) {
    return nanos(duration.getSeconds(), duration.getNanos());
  }

  static long nanos(Duration duration) {
    return nanos(duration.getSeconds(), duration.getNano());
  }

  private static long nanos(long seconds, int nanos) {
    long longest = LONGEST / Clock.SECOND;
    return seconds >= longest ? LONGEST : seconds <= -longest ? -LONGEST : seconds * Clock.SECOND + nanos;
  }
}
