package com.example.leasebroker;

import com.example.leasebroker.v1.Lease;
import com.google.protobuf.ByteString;

/** A lease as its worker holds it. The worker's lock guards it. */
final class HeldLease {
  /** How far a lease has come. It only moves forward, except that a refused settlement returns it to RUNNING. */
  enum Phase {
    /** Its handler runs. */
    RUNNING,
    /** Its handler has ended, and the settling call was not sent yet. */
    ENDED,
    /** The settling call is in its first attempt: LEASE_LOST of a heartbeat means nothing. */
    SETTLING,
    /** The settling call is sent again, or waits because the row is locked: heartbeats keep the lease meanwhile. */
    RESENDING,
    /** It is settled, lost or given up. */
    DONE
  }

  final String id;
  final Item item;
  Run run;
  Phase phase = Phase.RUNNING;

  /** True if its item was released, and not processed. */
  boolean released;

  /** The nanoseconds that the lease lasts after a heartbeat. */
  long duration;

  /** The moment until which the lease holds. It is not later than the database's, unless the lease is unconfirmed. */
  long deadline;

  /**
   * True until the first heartbeat of a lease whose claim has waited for items. Its time began at some moment of the wait, so
   * its deadline can be late by the time that the response took.
   */
  boolean unconfirmed;

  /** The moment before the last request was sent that was answered for this lease. */
  long lastAnswer;

  boolean inDoubt;

  /** The number of refusals of its ending because of a lock on the row. After one it is sent again from `sendAt` on. */
  int tries;

  long sendAt;

  /** The last checkpoint that the handler has saved, or null. */
  ByteString checkpoint;

  /** The number of checkpoints that the handler has saved, and that of the last one that a heartbeat has stored. */
  int saved;

  int stored;

  HeldLease(Lease message, long sentAt, long arrivedAt) {
    id = message.getLeaseId();
    item = new Item(message);
    duration = Values.nanos(message.getTimeLeft());
    unconfirmed = arrivedAt - sentAt > duration / 10;
    lastAnswer = unconfirmed ? arrivedAt : sentAt;
    deadline = lastAnswer + duration;
  }

  /** A lease of a minute, for the context of a test. */
  HeldLease(Item item) {
    id = item.key();
    this.item = item;
    duration = 60 * Clock.SECOND;
    lastAnswer = Clock.now();
    deadline = lastAnswer + duration;
  }

  /** Takes the answer to a heartbeat that was sent at `sentAt`. */
  void extend(long sentAt, long timeLeft) {
    deadline = unconfirmed ? sentAt + timeLeft : Math.max(deadline, sentAt + timeLeft);
    unconfirmed = false;
    lastAnswer = Math.max(lastAnswer, sentAt);
    duration = Math.max(duration, timeLeft);
    inDoubt = false;
  }

  boolean isResent() {
    return phase == Phase.RESENDING;
  }

  boolean wantsHeartbeat() {
    return phase == Phase.RUNNING || phase == Phase.ENDED || phase == Phase.RESENDING;
  }

  /** The moment from which no answer is missed, unless a heartbeat is answered before. */
  long doubtAt() {
    return lastAnswer + duration / 2;
  }

  /** The nanoseconds between two heartbeats. */
  long beatPeriod() {
    return Math.max(duration / 3, Clock.SECOND / 4);
  }
}
