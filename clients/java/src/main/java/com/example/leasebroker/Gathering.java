package com.example.leasebroker;

/** How long the settler waits for further endings, so that handlers that end one after the other share a call. */
final class Gathering {
  /** The wait. Each slot that has ended is idle for at most this long. */
  private static final long GATHER_TIME = Clock.MILLISECOND;

  private static final int MIN_SLOTS = 8;

  /** Handlers that are shorter would lose more by the wait than the broker gains. */
  private static final long MIN_HANDLER_TIME = 10 * GATHER_TIME;

  private final int slots;

  /** The mean time of handlers, in which a new one has a weight of one eighth. Zero: none has returned. */
  private long mean;

  Gathering(int slots) {
    this.slots = slots;
  }

  /** Notes the nanoseconds of a handler that has returned. */
  void note(long taken) {
    mean = mean == 0 ? taken : mean + (taken - mean) / 8;
  }

  /** Returns the nanoseconds to wait while this number of handlers runs. */
  long await(int running) {
    boolean gathers = slots >= MIN_SLOTS && 2 * running > slots && mean >= MIN_HANDLER_TIME;
    return gathers ? GATHER_TIME : 0;
  }
}
