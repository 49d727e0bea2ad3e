package android.os;

import java.util.HashMap;
import java.util.Map;

/** A stand-in. */
public class BaseBundle {
  private final Map<String, Object> values = new HashMap<>();

  public boolean getBoolean(String key, boolean defaultValue) {
    return (boolean) values.getOrDefault(key, defaultValue);
  }

  public int getInt(String key, int defaultValue) {
    return (int) values.getOrDefault(key, defaultValue);
  }

  public void putBoolean(String key, boolean value) {
    values.put(key, value);
  }

  public void putInt(String key, int value) {
    values.put(key, value);
  }
}
