package com.example.leasebroker;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** Runs handlers and translates their results and exceptions into endings. */
final class Runner {
  /** The number of keys that a line of the log has. */
  private static final int MAX_KEYS = 10;

  private final State state;
  private final BatchHandler handler;

  Runner(State state, BatchHandler handler) {
    this.state = state;
    this.handler = handler;
  }

  /** Makes a handler of one item a handler of batches. */
  static BatchHandler inBatches(Handler handler) {
    return (items, context) -> {
      Result result = handler.handle(items.get(0), context);
      return result == null ? null : Map.of(items.get(0), result);
    };
  }

  /** Returns the handler of a queue within its interceptors. */
  static BatchHandler intercepted(Queue queue) {
    BatchHandler handler = queue.handler;
    for (int i = queue.interceptors.size() - 1; i >= 0; i--) {
      Interceptor interceptor = queue.interceptors.get(i);
      BatchHandler inner = handler;
      handler = (items, context) -> interceptor.intercept(items, context, inner);
    }
    return handler;
  }

  /** Runs the handler in this thread, and passes the endings of its items to the state. Does nothing if its leases are gone. */
  @SuppressWarnings("try") // The scope is only opened and closed.
  void run(Run run) {
    if (!state.begin(run)) {
      return;
    }
    Map<Item, Result> results = null;
    Throwable error = null;
    run.context.begin();
    try (Tracing.Scope scope = Tracing.enter(run.context.traceParent())) {
      results = handler.handle(run.items(), run.context);
    } catch (Throwable thrown) {
      // Also an Error of a handler is a failure of its items.
      error = thrown;
    }
    run.context.end();
    List<Ending> endings = endings(run, results, error);
    state.update(() -> state.end(run, endings));
  }

  private List<Ending> endings(Run run, Map<Item, Result> results, Throwable error) {
    try {
      checkItems(run, error instanceof BatchException batch ? batch.errors() : results);
      return settled(run, results, error);
    } catch (Throwable mistake) {
      // The map and its values are the program's, so they can throw anything.
      return settled(run, null, mistake);
    }
  }

  /** Throws if a key is no item of the run. The item that is meant would be completed as if nothing was said of it. */
  private static void checkItems(Run run, Map<Item, ?> byItem) {
    if (byItem == null || byItem.isEmpty()) {
      return;
    }
    Set<Item> items = Collections.newSetFromMap(new IdentityHashMap<>());
    items.addAll(run.items());
    for (Item key : byItem.keySet()) {
      if (!items.contains(key)) {
        String name = key == null ? "null" : key.key();
        throw new IllegalArgumentException(
            "item " + name + " is no item of this batch: use the objects that the handler was given as keys");
      }
    }
  }

  private List<Ending> settled(Run run, Map<Item, Result> results, Throwable error) {
    // A result needs no look at the cancellation.
    Cause cause = error == null ? null : state.read(() -> run.cause);
    if (error != null && cause == null && !(error instanceof BatchException)) {
      log(error, run.items());
    }
    List<Ending> endings = new ArrayList<>(run.leases.size());
    for (HeldLease lease : run.leases) {
      Throwable itemError = error instanceof BatchException batch ? batch.errors().get(lease.item) : error;
      if (itemError == null) {
        endings.add(completed(lease, results == null ? null : results.get(lease.item)));
        continue;
      }
      if (itemError != error && cause == null) {
        log(itemError, List.of(lease.item));
      }
      endings.add(Ending.of(lease, itemError, cause, state.options.timeLimit()));
    }
    return endings;
  }

  private Ending completed(HeldLease lease, Result result) {
    try {
      return Ending.completed(lease, result);
    } catch (RuntimeException malformed) {
      log(malformed, List.of(lease.item));
      return Ending.failed(lease, Ending.errorText(malformed));
    }
  }

  /** Logs the stack of an exception that a handler did not throw on purpose. */
  private void log(Throwable error, List<Item> items) {
    if (Ending.decision(error) != error) {
      String keys = items.stream().limit(MAX_KEYS).map(Item::key).collect(Collectors.joining(", "));
      String others = items.size() > MAX_KEYS ? " and " + (items.size() - MAX_KEYS) + " others" : "";
      ErrorLog.log(state.options.logger(), "the handler of item " + keys + others + " failed", error);
    }
  }
}
