package com.example.leasebroker;

import java.util.List;

/**
 * A handler that runs or waits for a thread, with the leases that it works on: one, or those of a batch. The worker's lock guards
 * it.
 */
final class Run {
  final List<HeldLease> leases;
  final Context context;

  /** The moment at which the handler has begun. Until then the run waits for a thread. */
  long startedAt = Clock.NEVER;

  long cancelledAt = Clock.NEVER;
  Cause cause;
  boolean stuck;

  Run(State state, List<HeldLease> leases) {
    this.leases = leases;
    this.context = new Context(state, this);
    for (HeldLease lease : leases) {
      lease.run = this;
    }
  }

  boolean hasBegun() {
    return startedAt != Clock.NEVER;
  }

  List<Item> items() {
    return leases.size() == 1 ? List.of(leases.get(0).item) : leases.stream().map(lease -> lease.item).toList();
  }
}
