package com.example.leasebroker;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Base64;

/**
 * A certificate that signs itself, made by the JDK's keytool.
 *
 * @param cert the certificate in PEM form
 * @param key its key in PEM form
 */
record Certificate(byte[] cert, byte[] key) {
  static Certificate of(String name, Path folder) throws IOException, GeneralSecurityException, InterruptedException {
    Path file = folder.resolve(name + ".p12");
    Process keytool =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair", "-keyalg", "EC", "-groupname",
                "secp256r1", "-alias", "test", "-dname", "CN=" + name, "-ext", "san=dns:" + name, "-storetype", "PKCS12", "-storepass",
                "password", "-keystore", file.toString())
            .redirectErrorStream(true).start();
    String output = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (keytool.waitFor() != 0) {
      throw new IOException(output);
    }
    KeyStore store = KeyStore.getInstance("PKCS12");
    try (var input = Files.newInputStream(file)) {
      store.load(input, "password".toCharArray());
    }
    byte[] key = store.getKey("test", "password".toCharArray()).getEncoded();
    return new Certificate(pem("CERTIFICATE", store.getCertificate("test").getEncoded()), pem("PRIVATE KEY", key));
  }

  private static byte[] pem(String label, byte[] der) {
    String body = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der);
    return ("-----BEGIN " + label + "-----\n" + body + "\n-----END " + label + "-----\n").getBytes(StandardCharsets.US_ASCII);
  }
}
