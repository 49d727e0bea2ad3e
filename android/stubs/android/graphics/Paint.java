package android.graphics;

public class Paint {
  public static final int ANTI_ALIAS_FLAG = 1;
  public static final int FILTER_BITMAP_FLAG = 2;

  public Paint(int flags) {
    throw new RuntimeException("stub");
  }

  public void setColor(int color) {
    throw new RuntimeException("stub");
  }

  public void setStrokeWidth(float width) {
    throw new RuntimeException("stub");
  }

  public void setStyle(Style style) {
    throw new RuntimeException("stub");
  }

  public void setTextSize(float textSize) {
    throw new RuntimeException("stub");
  }

  public enum Style {
    FILL,
    STROKE,
    FILL_AND_STROKE
  }
}
