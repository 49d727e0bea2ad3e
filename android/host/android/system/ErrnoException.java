package android.system;

/** A stand-in. */
public final class ErrnoException extends Exception {
  public ErrnoException(String functionName, int errno) {
    super(functionName + " failed: " + errno);
  }
}
