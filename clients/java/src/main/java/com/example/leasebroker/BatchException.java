package com.example.leasebroker;

import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Objects;

/** Thrown by the handler of a batch if some items failed. Items that are not in the map are completed. */
public final class BatchException extends Exception {
  private static final long serialVersionUID = 1;
  private final transient Map<Item, Throwable> errors;

  /** Fails the items of the map. The keys are the objects that the handler was given: another one fails the whole batch. */
  public BatchException(Map<Item, ? extends Throwable> errors) {
    super(errors.size() + " items failed");
    errors.values().forEach(Objects::requireNonNull);
    this.errors = new IdentityHashMap<>(errors);
  }

  /** Returns the exceptions by item. */
  public Map<Item, Throwable> errors() {
    return errors;
  }
}
