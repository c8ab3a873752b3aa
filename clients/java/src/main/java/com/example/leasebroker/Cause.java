package com.example.leasebroker;

/** The reason why a handler is cancelled. */
public enum Cause {
  /** Another worker may have the item. Nothing is sent for it any more. */
  LEASE_LOST("lease_lost"),
  /** The handler has run for longer than the time limit or, without heartbeats, for half of the lease. */
  TIME_LIMIT("time_limit"),
  /** The worker stops, and its grace has passed. */
  SHUTDOWN("shutdown");

  private final String text;

  Cause(String text) {
    this.text = text;
  }

  /** Returns the cause as events and journals write it, such as "lease_lost". */
  @Override
  public String toString() {
    return text;
  }
}
