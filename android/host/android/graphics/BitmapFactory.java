package android.graphics;

import java.awt.image.BufferedImage;
import java.io.IOException;
import java.io.InputStream;
import javax.imageio.ImageIO;

/** A stand-in: what the JDK decodes, every n-th pixel of it. */
public class BitmapFactory {
  public BitmapFactory() {}

  public static Bitmap decodeStream(InputStream is, Rect outPadding, Options opts) {
    BufferedImage image;
    try {
      image = ImageIO.read(is);
    } catch (IOException e) {
      image = null;
    }
    if (image == null) {
      opts.outWidth = opts.outHeight = -1;
      return null;
    }
    int step = Math.max(1, opts.inSampleSize);
    int width = image.getWidth() / step;
    int height = image.getHeight() / step;
    opts.outWidth = width;
    opts.outHeight = height;
    if (opts.inJustDecodeBounds) {
      return null;
    }
    int[] pixels = new int[width * height];
    for (int i = 0; i < pixels.length; i++) {
      pixels[i] = image.getRGB(i % width * step, i / width * step);
    }
    return Bitmap.createBitmap(pixels, width, height, Bitmap.Config.ARGB_8888);
  }

  public static class Options {
    public boolean inJustDecodeBounds;
    public int inSampleSize;
    public int outHeight;
    public int outWidth;

    public Options() {}
  }
}
