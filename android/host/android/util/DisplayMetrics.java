package android.util;

/** A stand-in: 2 pixels each dp. */
public class DisplayMetrics {
  public float density = 2;

  public DisplayMetrics() {}
}
