package com.example.leasebroker;

/** Thrown by a handler to fail its item for good: the item becomes dead. */
public final class DeadLetter extends Exception {
  private static final long serialVersionUID = 1;

  /** Fails the item with a text that is stored on its row. */
  public DeadLetter(String message) {
    super(message);
  }

  /** Fails the item with a text and the exception behind it, which is not stored. */
  public DeadLetter(String message, Throwable cause) {
    super(message, cause);
  }
}
