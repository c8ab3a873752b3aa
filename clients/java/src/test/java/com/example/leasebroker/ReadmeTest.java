package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs the worker of the README as it is printed, except for the address. */
class ReadmeTest {
  @TempDir Path folder;

  @Test
  void workerOfTheReadmeRuns() throws Exception {
    try (Broker broker = new Broker(folder)) {
      Matcher matcher = Pattern.compile("```java\n(import .*?)```", Pattern.DOTALL).matcher(Files.readString(Path.of("README.md")));
      assertTrue(matcher.find());
      Path source = folder.resolve("Ship.java");
      Files.writeString(source, matcher.group(1).replace("127.0.0.1:50051", broker.address));
      String classPath = System.getProperty("java.class.path");
      assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, "-cp", classPath, "-d", folder.toString(), source.toString()));
      Map<String, Object> nobody = new HashMap<>();
      nobody.put("customer", null);
      broker.enqueue("orders", Arrays.asList(Map.of("customer", "Ada"), nobody));
      Path java = Path.of(System.getProperty("java.home"), "bin", "java");
      Process worker =
          new ProcessBuilder(java.toString(), "-cp", folder + ":" + classPath, "Ship").redirectErrorStream(true)
              .redirectOutput(folder.resolve("worker.log").toFile()).start();
      try {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (broker.rows("orders", "completed").size() + broker.rows("orders", "dead").size() < 2) {
          assertTrue(System.nanoTime() < until, Files.readString(folder.resolve("worker.log")));
          Thread.sleep(50);
        }
        List<Broker.Row> dead = broker.rows("orders", "dead");
        assertEquals(List.of("DeadLetter: no customer"), dead.stream().map(Broker.Row::error).toList());
        assertEquals(1, broker.rows("mail", "ready").size());
        worker.destroy(); // SIGTERM
        assertEquals(0, worker.waitFor(), Files.readString(folder.resolve("worker.log")));
      } finally {
        worker.destroyForcibly();
      }
    }
  }
}
