package android.system;

public final class Os {
  Os() {}

  public static void setenv(String name, String value, boolean overwrite) throws ErrnoException {
    throw new RuntimeException("stub");
  }
}
