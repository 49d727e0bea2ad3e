package android.graphics;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** A stand-in that notes what was drawn, a line each. */
public class Canvas {
  public final List<String> drawn = new ArrayList<>();

  public Canvas() {}

  private void note(String format, Object... values) {
    drawn.add(String.format(Locale.ROOT, format, values));
  }

  public void drawColor(int color) {
    note("colour #%08x", color);
  }

  public void drawRect(float left, float top, float right, float bottom, Paint paint) {
    note("rect %.2f %.2f %.2f %.2f #%08x %s", left, top, right, bottom, paint.color, paint.style);
  }

  public void drawLine(float startX, float startY, float stopX, float stopY, Paint paint) {
    note("line %.2f %.2f %.2f %.2f #%08x", startX, startY, stopX, stopY, paint.color);
  }

  public void drawText(String text, float x, float y, Paint paint) {
    note("text %.2f %.2f %s", x, y, text);
  }

  public void drawBitmap(Bitmap bitmap, Rect src, RectF dst, Paint paint) {
    note("bitmap %d x %d to %.2f %.2f %.2f %.2f", bitmap.getWidth(), bitmap.getHeight(), dst.left, dst.top, dst.right, dst.bottom);
  }
}
