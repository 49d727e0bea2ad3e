package ai.edgemem.demo;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.List;

/** What the app carries: the model, what edgemem.json says about it, and the names of its classes. */
final class Assets {
  static final String CONFIG = "edgemem.json";

  final Config config;
  final byte[] model;
  final List<String> labels;

  private Assets(Config config, byte[] model, List<String> labels) {
    this.config = config;
    this.model = model;
    this.labels = labels;
  }

  /**
   * @throws IOException an asset is missing
   * @throws IllegalArgumentException edgemem.json is damaged, or the model is another one than it says
   */
  static Assets read(Engine.Host host) throws IOException {
    Config config = Config.of(text(host, CONFIG));
    byte[] model = bytes(host, config.model);
    String found = sha256(model);
    if (!config.sha256.isEmpty() && !config.sha256.equalsIgnoreCase(found)) {
      throw new IllegalArgumentException(
          "assets/" + config.model + " is not the model that edgemem.json names (SHA-256 " + found + ")");
    }
    List<String> labels =
        config.labelFile.isEmpty() ? config.labels : Arrays.asList(text(host, config.labelFile).split("\r?\n"));
    return new Assets(config, model, labels);
  }

  private static String text(Engine.Host host, String name) throws IOException {
    return new String(bytes(host, name), StandardCharsets.UTF_8);
  }

  private static byte[] bytes(Engine.Host host, String name) throws IOException {
    try {
      return host.asset(name);
    } catch (FileNotFoundException e) {
      throw new FileNotFoundException("assets/" + name + " is missing from the app");
    }
  }

  private static String sha256(byte[] bytes) {
    try {
      StringBuilder text = new StringBuilder();
      for (byte b : MessageDigest.getInstance("SHA-256").digest(bytes)) {
        text.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
      }
      return text.toString();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("this system has no SHA-256", e);
    }
  }
}
