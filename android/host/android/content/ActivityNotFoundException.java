package android.content;

/** A stand-in. */
public class ActivityNotFoundException extends RuntimeException {
  public ActivityNotFoundException() {}
}
