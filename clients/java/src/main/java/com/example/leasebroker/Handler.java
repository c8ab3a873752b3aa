package com.example.leasebroker;

/** Works on one item. */
@FunctionalInterface
public interface Handler {
  /**
   * Works on an item. If it returns, the item is completed with the result, which can be null. If it throws, the exception says
   * how the item ends: see {@link Retry}, {@link DeadLetter} and {@link Release}.
   */
  Result handle(Item item, Context context) throws Exception;
}
