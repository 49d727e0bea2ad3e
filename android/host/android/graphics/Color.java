package android.graphics;

/** A stand-in. */
public class Color {
  public static final int WHITE = -1;

  public Color() {}

  public static int HSVToColor(float[] hsv) {
    return java.awt.Color.HSBtoRGB(hsv[0] / 360, hsv[1], hsv[2]);
  }
}
