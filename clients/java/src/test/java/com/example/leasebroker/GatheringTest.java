package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class GatheringTest {
  @Test
  void settlerGathersAsTheVectorsSay() throws Exception {
    try (Reader vectors = Files.newBufferedReader(Path.of("../vectors/gathering.json"))) {
      for (JsonElement element : JsonParser.parseReader(vectors).getAsJsonObject().getAsJsonArray("cases")) {
        JsonObject vector = element.getAsJsonObject();
        Gathering gathering = new Gathering(vector.get("slots").getAsInt());
        for (JsonElement taken : vector.getAsJsonArray("handler_ms")) {
          gathering.note(nanos(taken));
        }
        assertEquals(nanos(vector.get("wait_ms")), gathering.await(vector.get("running").getAsInt()), vector.toString());
      }
    }
  }

  private static long nanos(JsonElement milliseconds) {
    return Math.round(milliseconds.getAsDouble() * Clock.MILLISECOND);
  }
}
