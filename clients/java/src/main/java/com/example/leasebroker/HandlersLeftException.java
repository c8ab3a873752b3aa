package com.example.leasebroker;

/** Thrown when a worker has stopped although handlers did not return after they were cancelled. */
public final class HandlersLeftException extends RuntimeException {
  private static final long serialVersionUID = 1;

  HandlersLeftException(int handlers) {
    super(handlers + " handlers are still running");
  }
}
