package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.text.MessageFormat;
import java.util.ResourceBundle;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Collects the warnings of a worker. */
final class WarningLog implements System.Logger {
  final BlockingQueue<String> warnings = new LinkedBlockingQueue<>();

  @Override
  public String getName() {
    return "test";
  }

  @Override
  public boolean isLoggable(Level level) {
    return level == Level.WARNING;
  }

  @Override
  public void log(Level level, ResourceBundle bundle, String message, Throwable thrown) {
    log(level, bundle, message);
  }

  @Override
  public void log(Level level, ResourceBundle bundle, String format, Object... values) {
    if (isLoggable(level)) {
      // The seconds depend on the machine.
      warnings.add(MessageFormat.format(format, values).replaceAll("\\b[0-9]+ s\\b", "N s"));
    }
  }

  String next() throws InterruptedException {
    String warning = warnings.poll(60, TimeUnit.SECONDS);
    assertNotNull(warning, "no warning within 60 s");
    return warning;
  }
}
