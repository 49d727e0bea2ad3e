package android.graphics;

/** A stand-in. */
public class Paint {
  public static final int ANTI_ALIAS_FLAG = 1;
  public static final int FILTER_BITMAP_FLAG = 2;

  int color = 0xFF000000;
  Style style = Style.FILL;

  public Paint(int flags) {}

  public void setColor(int color) {
    this.color = color;
  }

  public void setStrokeWidth(float width) {}

  public void setStyle(Style style) {
    this.style = style;
  }

  public void setTextSize(float textSize) {}

  public enum Style {
    FILL,
    STROKE,
    FILL_AND_STROKE
  }
}
