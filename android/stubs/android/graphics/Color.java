package android.graphics;

public class Color {
  public static final int WHITE = -1;

  public Color() {
    throw new RuntimeException("stub");
  }

  public static int HSVToColor(float[] hsv) {
    throw new RuntimeException("stub");
  }
}
