package ai.edgemem.demo;

import ai.edgemem.Level;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What assets/edgemem.json says about the model in the app. */
final class Config {
  /** What the model's outputs are shown as. */
  enum Task {
    CLASSES,
    FACES,
    TENSORS
  }

  /** What the numbers of a picture are before a model gets them; bytes stay as they are. */
  enum Scale {
    MINUS_ONE_TO_ONE,
    ZERO_TO_ONE,
    IMAGENET
  }

  /** The name of an asset. */
  final String model;

  /** Of the asset, in hexadecimal digits; "" if it is not told. */
  final String sha256;

  final Task task;
  final Scale scale;
  final Level level;

  /** Of classes, in their order; empty if they have none. */
  final List<String> labels;

  /** The name of an asset with a label in each line, or "". */
  final String labelFile;

  final Map<String, Long> dims = new HashMap<>();
  final Map<String, long[]> shapes = new HashMap<>();

  private Config(Map<?, ?> json) {
    model = text(json, "model", null);
    sha256 = text(json, "sha256", "");
    String form = text(json, "form", "onnx");
    if (!form.equals("onnx")) {
      throw wrong("form", "onnx, because this app has ONNX Runtime alone");
    }
    task = choice(Task.values(), text(json, "task", "tensors"), "task");
    scale = choice(Scale.values(), text(json, "preprocess", usual(task).name()), "preprocess");
    level = choice(Level.values(), text(json, "level", Level.EXTENDED.name()), "level");
    Object named = json.get("labels");
    labelFile = named instanceof String ? (String) named : "";
    labels = named instanceof List ? texts((List<?>) named) : Collections.<String>emptyList();
    for (Map.Entry<?, ?> entry : object(json, "dims").entrySet()) {
      dims.put((String) entry.getKey(), whole(entry.getValue(), "dims"));
    }
    for (Map.Entry<?, ?> entry : object(json, "shapes").entrySet()) {
      if (!(entry.getValue() instanceof List)) {
        throw wrong("shapes", "an array of sizes for each input");
      }
      List<?> sizes = (List<?>) entry.getValue();
      long[] shape = new long[sizes.size()];
      for (int i = 0; i < shape.length; i++) {
        shape[i] = whole(sizes.get(i), "shapes");
      }
      shapes.put((String) entry.getKey(), shape);
    }
  }

  /**
   * Reads the file.
   *
   * @throws IllegalArgumentException it is damaged; the message says what is wrong
   */
  static Config of(String json) {
    Object value;
    try {
      value = Json.parse(json);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("edgemem.json is " + e.getMessage(), e);
    }
    if (!(value instanceof Map)) {
      throw new IllegalArgumentException("edgemem.json is no JSON object");
    }
    return new Config((Map<?, ?>) value);
  }

  private static Scale usual(Task task) {
    switch (task) {
      case FACES:
        return Scale.MINUS_ONE_TO_ONE;
      case CLASSES:
        return Scale.IMAGENET;
      default:
        return Scale.ZERO_TO_ONE;
    }
  }

  private static <T extends Enum<T>> T choice(T[] all, String name, String key) {
    StringBuilder names = new StringBuilder();
    for (T one : all) {
      if (one.name().equalsIgnoreCase(name)) {
        return one;
      }
      names.append(names.length() == 0 ? "one of " : ", ").append(one.name().toLowerCase(java.util.Locale.ROOT));
    }
    throw wrong(key, names + ", not " + name);
  }

  private static String text(Map<?, ?> json, String key, String absent) {
    Object value = json.get(key);
    if (value == null && absent != null) {
      return absent;
    }
    if (!(value instanceof String)) {
      throw wrong(key, "a text");
    }
    return (String) value;
  }

  private static List<String> texts(List<?> values) {
    List<String> texts = new ArrayList<>();
    for (Object value : values) {
      texts.add(String.valueOf(value));
    }
    return Collections.unmodifiableList(texts);
  }

  private static Map<?, ?> object(Map<?, ?> json, String key) {
    Object value = json.get(key);
    if (value == null) {
      return Collections.emptyMap();
    }
    if (!(value instanceof Map)) {
      throw wrong(key, "an object");
    }
    return (Map<?, ?>) value;
  }

  private static long whole(Object value, String key) {
    double number = value instanceof Double ? (Double) value : -1;
    if (number < 0 || number > Integer.MAX_VALUE || number != Math.rint(number)) {
      throw wrong(key, "made of whole numbers from 0 to " + Integer.MAX_VALUE);
    }
    return (long) number;
  }

  private static IllegalArgumentException wrong(String key, String what) {
    return new IllegalArgumentException("edgemem.json: " + key + " has to be " + what);
  }
}
