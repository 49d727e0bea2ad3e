package android.graphics;

public class Canvas {
  public Canvas() {
    throw new RuntimeException("stub");
  }

  public void drawColor(int color) {
    throw new RuntimeException("stub");
  }

  public void drawRect(float left, float top, float right, float bottom, Paint paint) {
    throw new RuntimeException("stub");
  }

  public void drawLine(float startX, float startY, float stopX, float stopY, Paint paint) {
    throw new RuntimeException("stub");
  }

  public void drawText(String text, float x, float y, Paint paint) {
    throw new RuntimeException("stub");
  }

  public void drawBitmap(Bitmap bitmap, Rect src, RectF dst, Paint paint) {
    throw new RuntimeException("stub");
  }
}
