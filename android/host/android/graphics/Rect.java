package android.graphics;

/** A stand-in. */
public final class Rect {
  public Rect(int left, int top, int right, int bottom) {}
}
