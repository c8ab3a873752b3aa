package com.example.leasebroker;

import java.time.Duration;

/** Thrown by a handler to give its item back. The attempt does not count. */
public final class Release extends Exception {
  private static final long serialVersionUID = 1;
  private final Duration after;

  /** Makes the item ready immediately. */
  public Release() {
    this(null);
  }

  /** Makes the item ready after a delay of up to 366 days. Null: immediately. */
  public Release(Duration after) {
    super("released");
    this.after = after;
  }

  Duration after() {
    return after;
  }
}
