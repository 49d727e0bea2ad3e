package android.graphics;

/** A stand-in. */
public final class Bitmap {
  private final int[] pixels;
  private final int width;
  private final int height;

  private Bitmap(int[] pixels, int width, int height) {
    this.pixels = pixels.clone();
    this.width = width;
    this.height = height;
  }

  public static Bitmap createBitmap(int[] colors, int width, int height, Config config) {
    return new Bitmap(colors, width, height);
  }

  public final int getWidth() {
    return width;
  }

  public final int getHeight() {
    return height;
  }

  public void getPixels(int[] pixels, int offset, int stride, int x, int y, int width, int height) {
    for (int row = 0; row < height; row++) {
      System.arraycopy(this.pixels, (y + row) * this.width + x, pixels, offset + row * stride, width);
    }
  }

  public void recycle() {}

  public enum Config {
    ALPHA_8,
    RGB_565,
    ARGB_4444,
    ARGB_8888
  }
}
