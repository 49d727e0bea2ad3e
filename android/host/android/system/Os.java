package android.system;

/** A stand-in: a JVM cannot change its environment, so whoever starts it does. */
public final class Os {
  public static void setenv(String name, String value, boolean overwrite) throws ErrnoException {
    if (name.isEmpty()) {
      throw new ErrnoException("setenv", 22);
    }
  }
}
