package com.example.leasebroker;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Runs an action at SIGTERM and SIGINT instead of the end of the process. If several workers run, all of their actions run. A shutdown hook would not do: the exit code of the
 * process would be 143 even if the worker has stopped in order. `sun.misc.Signal` is called by reflection, because it is not
 * part of the Java platform, although all common virtual machines have it.
 */
final class Signals implements AutoCloseable {
  /** The workers that run, and the actions of before the first of them. The class guards both. */
  private static final Set<Signals> OPEN = new LinkedHashSet<>();

  private static final Map<Object, Object> PREVIOUS = new LinkedHashMap<>();

  private final Runnable action;

  Signals(Runnable action, System.Logger logger) {
    this.action = action;
    synchronized (Signals.class) {
      if (OPEN.isEmpty()) {
        catchSignals(logger);
      }
      OPEN.add(this);
    }
  }

  private static void catchSignals(System.Logger logger) {
    try {
      for (String name : new String[] {"TERM", "INT"}) {
        Object signal = Class.forName("sun.misc.Signal").getConstructor(String.class).newInstance(name);
        PREVIOUS.put(signal, handle(signal, handler()));
      }
    } catch (ReflectiveOperationException | IllegalArgumentException unsupported) {
      logger.log(System.Logger.Level.WARNING, "signals do not stop the worker: call its method stop: {0}", unsupported);
    }
  }

  /** Restores the actions of before, if no other worker runs. */
  @Override
  public void close() {
    synchronized (Signals.class) {
      OPEN.remove(this);
      if (OPEN.isEmpty()) {
        restore();
      }
    }
  }

  private static void restore() {
    PREVIOUS.forEach(
        (signal, action) -> {
          try {
            handle(signal, action);
          } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
          }
        });
    PREVIOUS.clear();
  }

  private static void runActions() {
    List<Signals> open;
    synchronized (Signals.class) {
      open = List.copyOf(OPEN);
    }
    open.forEach(each -> each.action.run());
  }

  private static Object handler() throws ReflectiveOperationException {
    InvocationHandler onCall =
        (proxy, method, arguments) ->
            switch (method.getName()) {
              case "handle" -> {
                runActions();
                yield null;
              }
              case "equals" -> proxy == arguments[0];
              case "hashCode" -> System.identityHashCode(proxy);
              default -> "handler of lease-broker";
            };
    Class<?> type = Class.forName("sun.misc.SignalHandler");
    return Proxy.newProxyInstance(Signals.class.getClassLoader(), new Class<?>[] {type}, onCall);
  }

  private static Object handle(Object signal, Object action) throws ReflectiveOperationException {
    Class<?> type = Class.forName("sun.misc.SignalHandler");
    return Class.forName("sun.misc.Signal").getMethod("handle", signal.getClass(), type).invoke(null, signal, action);
  }
}
