package android.graphics;

/** A stand-in. */
public class RectF {
  final float left;
  final float top;
  final float right;
  final float bottom;

  public RectF(float left, float top, float right, float bottom) {
    this.left = left;
    this.top = top;
    this.right = right;
    this.bottom = bottom;
  }
}
