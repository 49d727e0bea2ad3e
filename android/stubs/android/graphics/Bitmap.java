package android.graphics;

public final class Bitmap {
  Bitmap() {}

  public static Bitmap createBitmap(int[] colors, int width, int height, Config config) {
    throw new RuntimeException("stub");
  }

  public final int getWidth() {
    throw new RuntimeException("stub");
  }

  public final int getHeight() {
    throw new RuntimeException("stub");
  }

  public void getPixels(int[] pixels, int offset, int stride, int x, int y, int width, int height) {
    throw new RuntimeException("stub");
  }

  public void recycle() {
    throw new RuntimeException("stub");
  }

  public enum Config {
    ALPHA_8,
    RGB_565,
    ARGB_4444,
    ARGB_8888
  }
}
