package com.example.leasebroker;

import java.util.List;

/** Notices that a proxy on the way to the broker refuses a settlement. Heartbeats keep its leases, so no deadline would end it. */
final class Way {
  /** The time for which a settlement is sent again that the way to the broker refuses. */
  static final long PATIENCE = 10 * Clock.SECOND;

  private final State state;
  private final List<Ending> group;

  /** The moment of the last retry. A heartbeat follows each. */
  private long retriedAt;

  /** The moment of the first refusal since the broker has answered heartbeats. */
  private long refusingSince;

  private boolean refuses;

  /** Judges the attempts of a settlement. */
  Way(State state, List<Ending> group) {
    this(state, group, Clock.NEVER);
  }

  private Way(State state, List<Ending> group, long refusingSince) {
    this.state = state;
    this.group = group;
    this.retriedAt = refusingSince;
    this.refusingSince = refusingSince;
  }

  /** Returns the judge of a part of the group. It has no patience of its own: the group was sent for long enough. */
  Way of(List<Ending> part) {
    // No heartbeat was sent since the last attempt of the group.
    return new Way(state, part, refusingSince);
  }

  /** Takes the failure of an attempt. Returns true if the settlement is not worth another one. */
  boolean note(Failure failure) {
    long now = Clock.now();
    if (!failure.isOfTheWay() || !isOpen()) {
      refusingSince = Clock.NEVER;
    } else {
      refusingSince = Math.min(refusingSince, now);
      refuses = now - refusingSince >= PATIENCE;
    }
    retriedAt = now;
    return refuses;
  }

  /** True if the settlement is not worth another attempt. */
  boolean refuses() {
    return refuses;
  }

  /** True if the broker has answered a heartbeat that was sent after the last retry. */
  private boolean isOpen() {
    return state.read(() -> group.stream().anyMatch(ending -> ending.lease().lastAnswer >= retriedAt));
  }
}
