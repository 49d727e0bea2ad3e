package android.graphics;

public class RectF {
  public RectF(float left, float top, float right, float bottom) {
    throw new RuntimeException("stub");
  }
}
