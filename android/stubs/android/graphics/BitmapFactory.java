package android.graphics;

import java.io.InputStream;

public class BitmapFactory {
  public BitmapFactory() {
    throw new RuntimeException("stub");
  }

  public static Bitmap decodeStream(InputStream is, Rect outPadding, Options opts) {
    throw new RuntimeException("stub");
  }

  public static class Options {
    public boolean inJustDecodeBounds;
    public int inSampleSize;
    public int outHeight;
    public int outWidth;

    public Options() {
      throw new RuntimeException("stub");
    }
  }
}
