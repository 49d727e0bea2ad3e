package android.os;

public class BaseBundle {
  BaseBundle() {}

  public boolean getBoolean(String key, boolean defaultValue) {
    throw new RuntimeException("stub");
  }

  public int getInt(String key, int defaultValue) {
    throw new RuntimeException("stub");
  }

  public void putBoolean(String key, boolean value) {
    throw new RuntimeException("stub");
  }

  public void putInt(String key, int value) {
    throw new RuntimeException("stub");
  }
}
