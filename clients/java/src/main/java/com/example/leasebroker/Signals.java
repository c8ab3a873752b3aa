package com.example.leasebroker;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Runs an action at SIGTERM and SIGINT instead of the end of the process. A shutdown hook would not do: the exit code of the
 * process would be 143 even if the worker has stopped in order. `sun.misc.Signal` is called by reflection, because it is not
 * part of the Java platform, although all common virtual machines have it.
 */
final class Signals implements AutoCloseable {
  private final Map<Object, Object> previous = new LinkedHashMap<>();

  Signals(Runnable action, System.Logger logger) {
    try {
      for (String name : new String[] {"TERM", "INT"}) {
        Object signal = Class.forName("sun.misc.Signal").getConstructor(String.class).newInstance(name);
        previous.put(signal, handle(signal, handler(action)));
      }
    } catch (ReflectiveOperationException | IllegalArgumentException unsupported) {
      logger.log(System.Logger.Level.WARNING, "signals do not stop the worker: call its method stop: {0}", unsupported);
    }
  }

  /** Restores the actions of before. */
  @Override
  public void close() {
    previous.forEach(
        (signal, action) -> {
          try {
            handle(signal, action);
          } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
          }
        });
  }

  private static Object handler(Runnable action) throws ReflectiveOperationException {
    InvocationHandler onCall =
        (proxy, method, arguments) ->
            switch (method.getName()) {
              case "handle" -> {
                action.run();
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
