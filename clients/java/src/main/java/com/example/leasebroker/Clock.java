package com.example.leasebroker;

/** The monotonic clock, in nanoseconds since the library was loaded. */
final class Clock {
  /** A moment that never comes. */
  static final long NEVER = Long.MAX_VALUE;

  static final long SECOND = 1_000_000_000L;
  static final long MILLISECOND = 1_000_000L;

  private static final long START = System.nanoTime();

  private Clock() {}

  /** Replaces the clock in a test. */
  static java.util.function.LongSupplier test;

  static long now() {
    return test != null ? test.getAsLong() : System.nanoTime() - START;
  }
}
