package com.example.leasebroker;

import java.time.Duration;

/**
 * A change in a worker. Fields that do not apply to it are null or 0.
 *
 * @param name the kind of the event
 * @param queue the worker's queue
 * @param item the item that the event is about
 * @param cause of CANCELLED and STUCK
 * @param reason of LOST and CANCELLED: why the lease was lost, if that is known. Of REFUSED: the broker's text. Of RETRY: the
 *     broker's reason
 * @param error the text of FAILED, UNKNOWN, RETRY and DISCONNECTED
 * @param count of HEARTBEAT: the number of leases that were extended
 * @param stack of STUCK: the stack of the handler's thread
 * @param retry of RETRY: the request that is sent again
 */
public record Event(
    Name name, String queue, Item item, Cause cause, String reason, String error, int count, String stack, Retrying retry) {

  /** The kinds of events. */
  public enum Name {
    /** A lease has arrived. */
    CLAIMED,
    /** The handler is about to run. */
    STARTED,
    /** The broker has completed the item. */
    COMPLETED,
    /** The broker has noted the failure. */
    FAILED,
    /** The item was given back. */
    RELEASED,
    /** The lease was lost. */
    LOST,
    /** The broker cannot apply the settlement. */
    REFUSED,
    /** No answer has said whether the item was settled. */
    UNKNOWN,
    /** Leases were extended by one call. */
    HEARTBEAT,
    /** No heartbeat was answered for half of the lease. */
    HEARTBEAT_MISSED,
    /** The handler is about to be cancelled. */
    CANCELLED,
    /** The handler did not stop after it was cancelled. */
    STUCK,
    /** A request is about to be sent again. */
    RETRY,
    /** A call was answered, after none was. */
    CONNECTED,
    /** A call was not answered, after one was. */
    DISCONNECTED,
    /** The worker begins to stop. */
    STOPPING,
    /** The worker has stopped. */
    STOPPED;

    /** Returns the name as journals write it, such as "heartbeat_missed". */
    @Override
    public String toString() {
      return name().toLowerCase(java.util.Locale.ROOT);
    }
  }

  /**
   * A request that is about to be sent again.
   *
   * @param rpc the name of the method
   * @param code the status of the attempt that failed
   * @param attempt the number of that attempt
   * @param pause the time until the next
   */
  public record Retrying(String rpc, String code, int attempt, Duration pause) {}

  static Event of(Name name, String queue, Item item) {
    return new Event(name, queue, item, null, null, null, 0, null, null);
  }

  Event withQueue(String queue) {
    return new Event(name, queue, item, cause, reason, error, count, stack, retry);
  }

  Event withCause(Cause cause) {
    return new Event(name, queue, item, cause, reason, error, count, stack, retry);
  }

  Event withReason(String reason) {
    return new Event(name, queue, item, cause, reason, error, count, stack, retry);
  }

  Event withError(String error) {
    return new Event(name, queue, item, cause, reason, error, count, stack, retry);
  }

  Event withCount(int count) {
    return new Event(name, queue, item, cause, reason, error, count, stack, retry);
  }

  Event withStack(String stack) {
    return new Event(name, queue, item, cause, reason, error, count, stack, retry);
  }

  Event withRetry(Retrying retry) {
    return new Event(name, queue, item, cause, reason, error, count, stack, retry);
  }
}
