package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A broker process with its own database. The environment variable LEASE_BROKER is the path of its binary. */
final class Broker implements AutoCloseable {
  private static final String CONFIGURATION =
      """
      [store]
      path = "queues.db"
      [server]
      listen = "127.0.0.1:0"
      [admin]
      listen = ""
      [queues.work]
      managed_columns = { payload = "text", amount = "integer", note = "text" }
      writable = ["note"]
      checkpoint = true
      max_attempts = 3
      # Longer than a test, so that a failed item does not come back.
      backoff = { initial = "10m", factor = 2.0, max = "1h", jitter = 0.2 }
      [queues.next]
      managed_columns = { number = "integer not null" }
      [queues.daily]
      managed_columns = { note = "text" }
      writable = ["note"]
      on_complete = { recur = "10ms" }
      """;
  private static final Pattern ROW = Pattern.compile("\"key\":\"([^\"]*)\".*\"error\":(null|\"([^\"]*)\")");

  /** An item as the command `list` prints it. */
  record Row(String key, String error) {}

  private final String binary = System.getenv("LEASE_BROKER");
  private final Path folder;
  private final List<Runnable> opened = new ArrayList<>();
  private Process process;
  String address;

  Broker(Path folder) throws IOException {
    assumeTrue(binary != null, "skipped: LEASE_BROKER is not the path of a broker");
    this.folder = folder;
    Files.writeString(folder.resolve("queues.toml"), CONFIGURATION);
    start();
  }

  private void start() throws IOException {
    ProcessBuilder serve = new ProcessBuilder(binary, "serve", "--config", "queues.toml").directory(folder.toFile());
    process = serve.redirectError(folder.resolve("log").toFile()).start();
    String line = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)).readLine();
    Matcher matcher = Pattern.compile("listens on ([^ ,]+)").matcher(String.valueOf(line));
    if (!matcher.find()) {
      throw new IllegalStateException("the broker has not started: " + Files.readString(folder.resolve("log")));
    }
    address = matcher.group(1);
  }

  /** Returns the items of a queue in a state. */
  List<Row> rows(String queue, String state) {
    try {
      Process list =
          new ProcessBuilder(binary, "list", queue, "--state", state, "--limit", "1000", "--output", "json", "--config", "queues.toml")
              .directory(folder.toFile()).redirectError(folder.resolve("list.log").toFile()).start();
      String output = new String(list.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, list.onExit().join().exitValue());
      List<Row> rows = new ArrayList<>();
      Matcher matcher = ROW.matcher(output);
      while (matcher.find()) {
        rows.add(new Row(matcher.group(1), matcher.group(3)));
      }
      assertEquals(output.lines().count(), rows.size());
      return rows;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Checks the numbers of items of the queue "work". */
  void expect(Map<String, Integer> counts) {
    Map<String, Integer> found = new HashMap<>();
    for (String state : List.of("ready", "leased", "delayed", "completed", "dead")) {
      int count = rows("work", state).size();
      if (count > 0) {
        found.put(state, count);
      }
    }
    assertEquals(counts, found);
  }

  /** Takes the lease of an item of the queue "work" away from its worker. */
  void cancel(String key, String reason) throws IOException {
    Process cancel =
        new ProcessBuilder(binary, "cancel", "work", key, "--reason", reason, "--address", "http://" + address)
            .redirectErrorStream(true).redirectOutput(folder.resolve("cancel.log").toFile()).start();
    assertEquals(0, cancel.onExit().join().exitValue(), Files.readString(folder.resolve("cancel.log")));
  }

  Client client() {
    Client client = Client.connect(address);
    opened.add(client::close);
    return client;
  }

  List<String> enqueue(String queue, List<Map<String, Object>> rows) {
    return client().enqueue(queue, rows);
  }

  /** Adds rows to "work". The column `amount` numbers them. */
  List<String> addWork(int count) {
    List<Map<String, Object>> rows = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      rows.add(Map.of("payload", "x", "amount", i));
    }
    return enqueue("work", rows);
  }

  /** Starts a worker that the end of the test stops. */
  Worker start(Queue queue, Watcher events) {
    Worker worker = Worker.builder(address, queue.onEvent(events)).build();
    worker.start();
    opened.add(
        () -> {
          try {
            worker.stop(Duration.ZERO);
          } catch (HandlersLeftException | LeaseBrokerException ended) {
            // The test has looked at it.
          }
        });
    return worker;
  }

  @Override
  public void close() {
    opened.forEach(Runnable::run);
    if (process != null) {
      process.destroyForcibly();
      process.onExit().join();
    }
  }
}
