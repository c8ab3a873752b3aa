package com.example.leasebroker;

import java.util.List;
import java.util.Map;

/** Surrounds a handler: measures it, opens a transaction, sets the context of a log. */
@FunctionalInterface
public interface Interceptor {
  /**
   * Runs `next` and returns its results. `items` has one item, or those of a batch. What this method throws ends the items as an
   * exception of the handler does.
   */
  Map<Item, Result> intercept(List<Item> items, Context context, BatchHandler next) throws Exception;
}
