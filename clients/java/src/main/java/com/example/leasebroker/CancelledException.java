package com.example.leasebroker;

/** Thrown by {@link Context#check} in a handler that is cancelled. */
public final class CancelledException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final Cause cause;

  CancelledException(Cause cause) {
    super(cause.toString());
    this.cause = cause;
  }

  /** Returns the reason of the cancellation. */
  public Cause reason() {
    return cause;
  }
}
