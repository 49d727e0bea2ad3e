package ai.edgemem.demo;

import android.content.ContentResolver;
import android.graphics.Bitmap;
import android.graphics.BitmapFactory;
import android.net.Uri;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;

/** Pictures that a user chose. */
final class Pictures {
  private static final int MOST_SIDE = 1024;

  private Pictures() {}

  /**
   * Decodes a picture, made smaller where it is large. Runs on any thread.
   *
   * @throws IOException it cannot be read, or is no picture
   */
  static Picture load(ContentResolver resolver, Uri uri) throws IOException {
    BitmapFactory.Options options = new BitmapFactory.Options();
    options.inJustDecodeBounds = true;
    try (InputStream in = open(resolver, uri)) {
      BitmapFactory.decodeStream(in, null, options);
    }
    options.inJustDecodeBounds = false;
    options.inSampleSize = 1;
    while (Math.max(options.outWidth, options.outHeight) / options.inSampleSize > MOST_SIDE) {
      options.inSampleSize *= 2;
    }
    Bitmap bitmap;
    try (InputStream in = open(resolver, uri)) {
      bitmap = BitmapFactory.decodeStream(in, null, options);
    }
    if (bitmap == null) {
      throw new IOException("this is no picture that Android can read");
    }
    int width = bitmap.getWidth();
    int height = bitmap.getHeight();
    int[] argb = new int[width * height];
    bitmap.getPixels(argb, 0, width, 0, 0, width, height);
    bitmap.recycle();
    return new Picture(width, height, argb);
  }

  private static InputStream open(ContentResolver resolver, Uri uri) throws IOException {
    try {
      InputStream in = resolver.openInputStream(uri);
      if (in == null) {
        throw new FileNotFoundException("the picture is not there any more");
      }
      return in;
    } catch (SecurityException e) {
      throw new IOException("the picture may not be read: " + e.getMessage(), e);
    }
  }
}
