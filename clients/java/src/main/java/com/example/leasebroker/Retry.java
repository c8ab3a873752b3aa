package com.example.leasebroker;

import java.time.Duration;

/**
 * Thrown by a handler to fail its item. The item is tried again if it has attempts left. Every other exception does the same,
 * after the queue's backoff.
 */
public final class Retry extends Exception {
  private static final long serialVersionUID = 1;
  private final Duration after;

  /** Tries the item again after the queue's backoff. */
  public Retry(String message) {
    this(message, null);
  }

  /** Tries the item again after a delay of up to 366 days. Null: the queue's backoff. */
  public Retry(String message, Duration after) {
    super(message);
    this.after = after;
  }

  Duration after() {
    return after;
  }
}
