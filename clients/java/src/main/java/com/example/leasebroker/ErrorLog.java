package com.example.leasebroker;

/** Logs exceptions of the program. */
final class ErrorLog {
  private ErrorLog() {}

  /** Logs an exception. Never throws, also if the exception cannot be printed or the logger of the program fails. */
  static void log(System.Logger logger, String text, Throwable error) {
    try {
      logger.log(System.Logger.Level.ERROR, text, error);
    } catch (Throwable unprintable) {
      try {
        logger.log(System.Logger.Level.ERROR, text + ": " + Ending.errorText(error));
      } catch (Throwable broken) {
        // There is no other place for it.
      }
    }
  }
}
